"""How a run ended, on disk."""

from pathlib import Path

import pytest

from xla_equiv.execute.outcome import Ending, Outcome, outcome_path, read_outcome, write_outcome
from xla_equiv.values.errors import TraceError


@pytest.mark.parametrize("ending", Ending)
def test_an_outcome_is_read_as_it_was_written(tmp_path: Path, ending: Ending) -> None:
    outcome = Outcome(ending=ending, what="größer", remedy="do", attempts=2, first_failure="before", log="0.txt")
    write_outcome(tmp_path / "trace", outcome)
    assert read_outcome(tmp_path / "trace") == outcome


def test_a_run_that_has_not_ended_has_no_outcome(tmp_path: Path) -> None:
    assert read_outcome(tmp_path / "trace") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"ending": "fine"}', b'{"ending": "done", "attempts": "x"}']
)
def test_a_damaged_outcome_is_named(tmp_path: Path, content: bytes) -> None:
    outcome_path(tmp_path / "trace").write_bytes(content)
    with pytest.raises(TraceError, match=r"trace\.outcome\.json is damaged") as caught:
        read_outcome(tmp_path / "trace")
    assert caught.value.next == "run the suite again"


def test_every_truncation_of_an_outcome_is_refused(tmp_path: Path) -> None:
    write_outcome(tmp_path / "trace", Outcome(ending=Ending.DONE))
    path = outcome_path(tmp_path / "trace")
    whole = path.read_bytes().rstrip()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(TraceError):
            read_outcome(tmp_path / "trace")
