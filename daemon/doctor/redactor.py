"""Removes personal data from text: names, paths, secrets, private words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..routing.detectors.finding import TextPart
from ..routing.detectors.own_words import OwnWords
from ..routing.inspection.text_scanner import make_scanner

_PATH = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:)?[/\\](?:[^\s'\"(),:;]+)")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”|`[^`\n]*`")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"]+", re.IGNORECASE)
_LOCAL = "http://127.0.0.1"
_SHORTEST = 3


class Redactor:
    """Replaces the user's `secrets` by the given marks, and counts the replacements."""

    def __init__(self, secrets: Mapping[str, str], words: Iterable[str] = ()) -> None:
        # Folders first, since names may be part of them.
        texts = sorted((text for text in secrets if len(text) >= _SHORTEST), key=len, reverse=True)
        patterns = [(text, re.compile(re.escape(text), re.IGNORECASE)) for text in texts]
        self._folders = [(each, secrets[text]) for text, each in patterns if _is_path(text)]
        self._own = [(each, secrets[text]) for text, each in patterns if not _is_path(text)]
        self._scanner = make_scanner(OwnWords(words=tuple(words)))
        self.count = 0

    def text(self, text: str) -> str:
        """Return the text with marks in place of personal data."""
        text = _ADDRESS.sub(self._address, text)
        for pattern, mark in self._folders:  # which may contain blanks
            text = self._replace(pattern, mark, text)
        text = self._replace(_PATH, "(path)", text)
        for pattern, mark in self._own:
            text = self._replace(pattern, mark, text)
        text = self._replace(_QUOTED, "(quoted)", text)
        return self._scanned(text)

    def _replace(self, pattern: re.Pattern[str], mark: str, text: str) -> str:
        text, count = pattern.subn(lambda _: mark, text)
        self.count += count
        return text

    def _address(self, found: re.Match[str]) -> str:
        if found[0].startswith(_LOCAL):
            return found[0]
        self.count += 1
        return "(address)"

    def _scanned(self, text: str) -> str:
        """Replace the findings of the privacy detectors; overlapping ones become one mark."""
        findings = self._scanner.scan([TextPart(text=text, where="log")])
        spans: list[tuple[int, int]] = []
        for finding in findings:
            if spans and finding.start < spans[-1][1]:
                spans[-1] = spans[-1][0], max(spans[-1][1], finding.end)
            else:
                spans.append((finding.start, finding.end))
        for start, end in reversed(spans):
            text = f"{text[:start]}(private){text[end:]}"
        self.count += len(spans)
        return text


def _is_path(text: str) -> bool:
    return "/" in text[:1] or "\\" in text
