"""Detects file paths that reveal a person's name or the location of a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.data_files import KeywordPatterns
from ..finding import FindingKind, SensitiveFinding

# A folder or file of a few words, if the path continues or a file extension ends it.
_SPACED = (
    r"(?:(?: [\w()&+-][\w.()&+-]{0,30}){1,4}(?:[/\\][^\s\"'`<>|;,:)*?]{1,300}+|(?<=\.\w\w\w)"
    r"(?![\w.])|(?<=\.\w\w\w\w)(?![\w.])|(?<=\.\w\w)(?![\w.]))){0,4}"
)
_HOMES = KeywordPatterns("home_paths.txt", _SPACED)
_SECRET_NAMES = KeywordPatterns("secret_files.txt")
_SECRET_ENDINGS = re.compile(
    r"\.(?:(?P<key>key(?![\w(.]))|(?:pem|p12|pfx|jks|kdbx?|ppk|p8|keystore|tfvars|ovpn|asc\.key)\b)"
)
_STEM = re.compile(r"[\w-]{1,60}\Z")
_KEY_STEM = re.compile(r"^(?:server|private|privkey|client|ssl|tls|master$)")
_FRONT_OF = re.compile(r"(?:(?:~|\$HOME|[A-Za-z]:)?[/\\])?(?:[\w.@~-]{1,80}[/\\]{1,2}){1,12}\Z")
_LONGEST_FRONT = 200
_TELLING = re.compile(r"\d|export|backup|vault|dump", re.IGNORECASE)


def find_file_paths(text: str) -> Iterator[SensitiveFinding]:
    """Yield paths below a user's home folder, and files that hold secrets."""
    for match in _HOMES.finditer(text):
        start = match.start()
        if not text[max(0, start - 1) : start].isalnum():
            path = match[0].rstrip(".!]}")
            yield SensitiveFinding(FindingKind.FILE_PATH, start, start + len(path), path)
    for match in _SECRET_NAMES.finditer(text):
        before = text[max(0, match.start() - 1) : match.start()]
        if not before.isalnum() and before != "_":
            yield from _in_folder(text, match.start(), match.end())
    for match in _SECRET_ENDINGS.finditer(text):
        stem = _STEM.search(text[max(0, match.start() - 60) : match.start()])
        if stem is None:
            continue
        start = match.start() - len(stem[0])
        # `event.key` is code, and `tls/host.key` a file.
        in_folder = text[max(0, start - 1) : start] in ("/", "\\")
        if match["key"] is None or in_folder or _KEY_STEM.match(stem[0]):
            yield from _in_folder(text, start, match.end())


def _in_folder(text: str, start: int, end: int) -> Iterator[SensitiveFinding]:
    """Yield the file, including the folders written before it; not a bare usual name, which reveals
    nothing.
    """
    front = _FRONT_OF.search(text[max(0, start - _LONGEST_FRONT) : start])
    start -= len(front[0]) if front else 0
    path = text[start:end]
    usual = not set("/\\").intersection(path) and not _TELLING.search(path)
    if not usual and not path.startswith("/path/to/"):
        yield SensitiveFinding(FindingKind.SECRET_PATH, start, end, path)
