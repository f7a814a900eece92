"""Where an answer ends that fills a gap in code, as llama-server has it."""

from __future__ import annotations

import time


class LineGuard:
    """Ends one answer where a line is indented less than the gap, or where it takes too long.

    Both count only once a line is complete: what is begun is worth its end.
    """

    def __init__(self, *, indent: int = 0, seconds: float | None = None) -> None:
        """At least `indent` spaces or tabs begin each line but the first."""
        self._indent = indent
        self._seconds = seconds
        self._began: float | None = None
        self._text = ""
        self._line = 0
        self.ended = False

    def take(self, text: str) -> str:
        """What of the new text belongs to the answer."""
        if self.ended:
            return ""
        if self._began is None:
            self._began = time.monotonic()
        seen = len(self._text)
        self._text += text
        if self._indent and (end := self._outdent()) is not None:
            self.ended = True
            return self._text[seen:end]
        late = self._seconds is not None and time.monotonic() - self._began > self._seconds
        if late and "\n" in text:
            self.ended = True
            return text[: text.index("\n") + 1]
        return text

    def _outdent(self) -> int | None:
        """Where the first line that is indented too little has its first other character."""
        while (newline := self._text.find("\n", self._line)) >= 0:
            start = end = newline + 1
            while end < len(self._text) and self._text[end] in " \t":
                end += 1
            if end == len(self._text):
                return None  # its indentation is not complete
            if end - start < self._indent:
                return end
            self._line = end
        return None
