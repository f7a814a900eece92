"""Why no file is written: the disk, the destination, or the weights."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from ...base.errors import BackendError
from .resumable_file import ResumableFile

_SPARE = 64 << 20


class QuantizeFailed(BackendError):
    """No file was written; the message says why."""

    code = "quantize_failed"


def check_room(file: ResumableFile) -> None:
    """Raise `OSError` unless the disk has room for the rest of the file."""
    free = shutil.disk_usage(file.part.parent).free
    if free < file.bytes_left + _SPARE:
        if not file.done:
            file.discard()
        raise OSError(errno.ENOSPC, f"{file.bytes_left} bytes are needed, and {free} are free")


def disk_failure(error: OSError, output: Path) -> QuantizeFailed:
    """Return what to tell of an error while `output` was written."""
    if error.errno == errno.ENOSPC:
        return QuantizeFailed(
            f"The disk of {output.parent} has too little room: {error.strerror}.",
            hint="Make room, or choose another --output; what is done is kept.",
            code="disk_full",
        )
    if isinstance(error, BlockingIOError):
        return QuantizeFailed(
            f"Another process is writing {output}.",
            hint="Wait for it, or choose another --output.",
            code="busy",
        )
    reason = error.strerror or error
    return QuantizeFailed(f"{output} cannot be written: {reason}.", hint="Choose another --output.")
