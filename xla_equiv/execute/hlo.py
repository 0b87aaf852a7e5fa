"""Facts from the text of an optimised HLO module."""

import hashlib
import re
from collections import Counter

from xla_equiv.values.trace import ModuleFacts

METADATA = re.compile(r", metadata=\{[^}]*\}")
NAME = re.compile(r"%[\w.\-]+|[\w.\-]+(?=: )")  # in the head of a computation, parameters stand without %
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%[\w.\-]+ = .*?[\]})] ([a-z][a-z0-9\-]*)\(", re.MULTILINE)
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
WHILE = re.compile(r"^\s+(?:ROOT )?%[\w.\-]+ = .* while\(.*$", re.MULTILINE)


def module_facts(text: str) -> ModuleFacts:
    """Return the facts of the module that `text` (XLA's HLO syntax) describes."""
    whiles = [TRIP_COUNT.search(line) for line in WHILE.findall(text)]
    return ModuleFacts(
        fingerprint=_fingerprint(text),
        opcodes=dict(sorted(Counter(INSTRUCTION.findall(text)).items())),
        trip_counts=tuple(int(found.group(1)) if found else 0 for found in whiles),
    )


def _fingerprint(text: str) -> str:
    """Return the SHA-256 of the module without its header, metadata and names."""
    body = METADATA.sub("", text.partition("\n")[2])
    numbers: dict[str, str] = {}
    renamed = NAME.sub(lambda found: numbers.setdefault(found.group().lstrip("%"), f"%{len(numbers)}"), body)
    return hashlib.sha256(renamed.encode()).hexdigest()
