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
_REST = rf"(?:[/\\][^\s\"'`<>|;,:)*?]{{0,300}}+{_SPACED})?"
_HOMES = (
    ("/home/", re.compile(r"(?:/(?:export|usr|var|data|nfs|srv|mnt|net|vol\d?|afs|u))?/home\d?/"
                          r"(?![$<{*])[\w.-]{1,40}" + _REST)),
    ("/Benutzer/", re.compile(r"/Benutzer/(?![$<{*])[\w.-]{1,40}" + _REST)),
    ("/Volumes/", re.compile(r"/Volumes/(?![$<{*]|Macintosh HD\b)[\w.-]{1,40}/[^\s\"'`<>"
                             r"|;,:)*?]{1,300}+")),
    ("/Users/", re.compile(r"/Users/(?![$<{*]|Shared\b)[\w.-]{1,40}" + _REST)),
    ("sers", re.compile(r"[A-Za-z]:[\\/]{1,2}[Uu]sers[\\/]{1,2}(?!Public\b|%|<)[\w. -]{1,40}?"
                        r"(?=[\\/\s\"'`]|$)"
                        r"(?:[\\/]{1,2}[^\s\"'`<>|;,:)*?]{0,300}+" + _SPACED + r")?")),
    # A user's folder on a server.
    ("\\\\", re.compile(r"\\{2,4}[\w.-]{2,60}\\{1,2}(?:[Hh]omes?|[Uu]sers?|[Pp]rofiles?|[Pp]rivate|"
                         r"[Pp]ersonal|[Bb]enutzer|[Uu]tilisateurs|[Uu]suarios)\$?\\{1,2}[\w.-]{1,40}"
                         r"(?:\\{1,2}[^\s\"'`<>|;,:)*?]{0,300}+" + _SPACED + r")?")),
    ("/mnt/", re.compile(r"/mnt/[a-z]/Users/(?!Public\b|[$<{*])[\w.-]{1,40}" + _REST)),  # WSL
    ("/root/", re.compile(r"/root/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("~/", re.compile(r"~/(?:Documents|Dokumente|Desktop|Downloads|Schreibtisch|Pictures|Bilder|"
                      r"Videos|Dropbox|OneDrive|Nextcloud|[Pp]rivate)/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("/media/", re.compile(r"/media/[\w.-]{1,40}/[^\s\"'`<>|;,:)*?]{1,300}+")),
)  # fmt: skip
_SECRET_NAMES = KeywordPatterns("secret_files.txt")
_SECRET_ENDINGS = re.compile(
    r"\.(?:(?P<key>key(?![\w(.]))|(?:pem|p12|pfx|jks|kdbx?|ppk|p8|keystore|tfvars|ovpn|asc\.key)\b)"
)
_STEM = re.compile(r"[\w-]{1,60}\Z")
_KEY_STEM = re.compile(r"^(?:server|private|privkey|client|ssl|tls|master$)")
_FRONT_OF = re.compile(r"(?:(?:~|\$HOME|[A-Za-z]:)?[/\\])?(?:[\w.@~-]{1,80}[/\\]{1,2}){1,12}\Z")
_LONGEST_FRONT = 200


def find_file_paths(text: str) -> Iterator[SensitiveFinding]:
    """Yield paths below a user's home folder, and files that hold secrets."""
    for piece, pattern in _HOMES:
        if piece in text:
            for match in pattern.finditer(text):
                before = text[max(0, match.start() - 1) : match.start()]
                if not before.isalnum():
                    end = match.start() + len(match[0].rstrip(".!]}"))
                    yield SensitiveFinding(
                        FindingKind.FILE_PATH, match.start(), end, text[match.start() : end]
                    )
    for match in _SECRET_NAMES.finditer(text):
        if not text[max(0, match.start() - 1) : match.start()].isalnum():
            yield _in_folder(text, match.start(), match.end())
    for match in _SECRET_ENDINGS.finditer(text):
        stem = _STEM.search(text[max(0, match.start() - 60) : match.start()])
        if stem is None:
            continue
        start = match.start() - len(stem[0])
        # `event.key` is code, and `tls/host.key` a file.
        in_folder = text[max(0, start - 1) : start] in ("/", "\\")
        if match["key"] is None or in_folder or _KEY_STEM.match(stem[0]):
            yield _in_folder(text, start, match.end())


def _in_folder(text: str, start: int, end: int) -> SensitiveFinding:
    """Return the file, including the folders written before it."""
    front = _FRONT_OF.search(text[max(0, start - _LONGEST_FRONT) : start])
    start -= len(front[0]) if front else 0
    return SensitiveFinding(FindingKind.SECRET_PATH, start, end, text[start:end])
