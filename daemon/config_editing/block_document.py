"""Edits files that are programs: keeps ingle's lines between two markers at the top."""

from __future__ import annotations

from .document_path import Path

BLOCK = "ingle"
"""The only path in such a file."""


class BlockDocument:
    """A file in Vim script or Lua; `comment` starts a comment line."""

    def __init__(self, text: str, comment: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._start = f"{comment} >>> ingle: `ingle connect` wrote these lines"
        self._end = f"{comment} <<< ingle"

    @property
    def data(self) -> object:
        """Return the lines between the markers under `BLOCK`, if there are any, and the rest."""
        found = self._find()
        if found is None:
            return {"rest": self._text}
        start, end = found
        rest = self._text[:start] + self._text[end:]
        lines = self._text[start:end].splitlines()[1:-1]
        return {"rest": rest, BLOCK: "\n".join(lines)}

    def changed(self, path: Path, value: object) -> str:
        """Return the text with these lines between the markers."""
        block = self._newline.join([self._start, *str(value).split("\n"), self._end, ""])
        found = self._find()
        if found is None:
            # At the top: plugins read their settings when they are loaded.
            return block + self._text
        return self._text[: found[0]] + block + self._text[found[1] :]

    def without(self, path: Path) -> str:
        """Return the text without markers and lines."""
        found = self._find()
        assert found is not None
        return self._text[: found[0]] + self._text[found[1] :]

    def _find(self) -> tuple[int, int] | None:
        start = self._text.find(self._start)
        end = self._text.find(self._end, start + 1)
        if start < 0 or end < 0:
            return None
        line_end = self._text.find("\n", end)
        return start, len(self._text) if line_end < 0 else line_end + 1
