"""Pictures that go along with a prompt of `ingle run` and `ingle -p`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from mimetypes import guess_type
from pathlib import Path

from ..command_errors import UsageError

_MOST = 8_000_000
"""Bytes of a picture: in base64, a request has room for it."""


def read_pictures(files: Sequence[str]) -> list[str]:
    """Return the files as data URIs; raises `UsageError`."""
    return [_data_uri(Path(file).expanduser()) for file in files]


def _data_uri(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Name a file.") from error
    if len(data) > _MOST:
        raise UsageError(f"{path} has more than {_MOST // 1_000_000} MB.", "Scale it down.")
    kind = guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{b64encode(data).decode()}"
