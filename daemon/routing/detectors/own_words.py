"""Detects the user's own private words and folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from .finding import FindingKind, SensitiveFinding


class OwnWords(msgspec.Struct, frozen=True):
    """Words and folders that must not leave; case-insensitive, whole words."""

    words: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class OwnWordDetector:
    """Finds the user's words and paths below the user's folders."""

    def __init__(self, owner: OwnWords) -> None:
        words = sorted({" ".join(word.split()) for word in owner.words} - {""})
        self._words = [(word.lower(), _word_pattern(word)) for word in words]
        self._folders = [_folder_pattern(form) for form in _folder_forms(owner.folders)]

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield the words, and paths below the folders."""
        lower = text.lower() if self._words else ""
        for word, pattern in self._words:
            if word.split()[0] in lower:
                for match in pattern.finditer(text):
                    yield SensitiveFinding(FindingKind.OWN_WORD, *match.span(), word)
        for pattern in self._folders:
            for match in pattern.finditer(text):
                yield SensitiveFinding(FindingKind.OWN_FOLDER, *match.span(), match[0])


def _word_pattern(word: str) -> re.Pattern[str]:
    begin = r"(?<!\w)" if word[0].isalnum() else ""
    end = r"(?!\w)" if word[-1].isalnum() else ""
    # In scripts without spaces a word has no visible boundary.
    if not word.isascii() and not any(c.lower() != c.upper() for c in word):
        begin = end = ""
    return re.compile(begin + r"\s+".join(map(re.escape, word.split())) + end, re.IGNORECASE)


def _folder_forms(folders: tuple[str, ...]) -> list[str]:
    """Return each folder in its spellings: in full, and relative to the home folder."""
    home = str(Path.home())
    forms: set[str] = set()
    for folder in folders:
        full = str(Path(folder).expanduser()).rstrip("/\\")
        if not full:
            continue
        forms.add(full)
        if full.startswith(home + "/"):
            forms.update(mark + full[len(home) :] for mark in ("~", "$HOME", "${HOME}"))
    return sorted(forms)


def _folder_pattern(folder: str) -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w/])" + re.escape(folder) + r"(?:[/\\][^\s\"'`<>|;,)]{0,400}+|(?![\w.-]))"
    )
