"""Writing files so that a reader sees the old content or the new one, never a part."""

import contextlib
import os
import tempfile
from pathlib import Path

from xla_equiv.values.errors import OutputError


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the content of `path` by `data` in one step, making its folder when it is not there.

    Raises:
        OutputError: the folder is read-only or full, or cannot be made; `path` keeps what it held.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if not isinstance(error, OSError):
            raise
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}",
            next="free space, or choose a folder that can be written (--out DIR)",
        ) from error
