"""Edits files that are programs: keeps ingle's lines between two markers at the top."""

from __future__ import annotations

from .document_path import Path

BLOCK = "ingle"
"""The only path in such a file."""


class BlockDocument:
    """A file in Vim script or Lua; `comment` starts a comment line."""

    def __init__(self, text: str, comment: str) -> None:
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._start = f"{comment} >>> ingle: `ingle connect` wrote these lines"
        self._end = f"{comment} <<< ingle"
        self._before, self._block, self._after = self._parts(text)

    @property
    def data(self) -> object:
        """Return the lines between the markers under `BLOCK`, if there are any, and the rest."""
        data = {"rest": self._before + self._after}
        if self._block:
            data[BLOCK] = "\n".join(self._block.splitlines()[1:-1])
        return data

    def changed(self, path: Path, value: object) -> str:
        """Return the text with these lines between the markers."""
        block = self._newline.join([self._start, *str(value).split("\n"), self._end, ""])
        return self._before + block + self._after

    def without(self, path: Path) -> str:
        """Return the text without markers and lines."""
        return self._before + self._after

    def _parts(self, text: str) -> tuple[str, str, str]:
        """Return the text before the markers, that from the first to the second, and the rest.

        Without markers all is rest, so that they are added at the top: plugins read their settings
        when they are loaded.
        """
        start = text.find(self._start)
        end = text.find(self._end, start + 1)
        if start < 0 or end < 0:
            return "", "", text
        line_end = text.find("\n", end)
        stop = len(text) if line_end < 0 else line_end + 1
        return text[:start], text[start:stop], text[stop:]
