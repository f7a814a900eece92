"""`PlainOutput`: lines that are written once, and `SentenceWriter`: an answer as such lines."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

from ..text.terminal_safe_text import StreamCleaner, clean

NEWS_INTERVAL = 5.0
"""Seconds between two lines of progress."""
LONGEST_HELD = 400
"""Characters of a sentence after which its words are written before it ends."""
BELL = "\a"
SPEAKER = "Model"
_SENTENCE = re.compile(r".*(?:\n|[.!?:;…]\s|[。！？])", re.DOTALL)
_WORDS = re.compile(r".*\s", re.DOTALL)


class PlainOutput:
    """Writes lines, each of which a screen reader speaks at once.

    Nothing is rewritten, no cursor is moved and no colour is used. Errors go to `errors`, with the
    word in front. Once a reader is gone (`BrokenPipeError`), nothing more is tried.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        errors: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out or sys.stdout
        self._errors = errors or sys.stderr
        self._clock = clock
        self._next_news = 0.0
        self._cleaner = StreamCleaner()
        self._held = ""
        self._open = False
        self._gone: set[TextIO] = set()
        self._answers = 0
        self.is_script = False
        """Whether the input is not typed: then the output is answers alone, without names."""
        self.failures = 0

    @property
    def is_terminal(self) -> bool:
        """Whether it is written to a terminal."""
        return self._out.isatty()

    def line(self, text: str = "") -> None:
        """Write a line."""
        self.end_answer()
        self._write(f"{clean(text)}\n")

    def error(self, message: str, hint: str | None = None) -> None:
        """Write an error and its hint."""
        self.end_answer()
        self.failures += 1
        text = f"Error: {clean(message)}" + (f" {clean(hint)}" if hint else "")
        self._put(self._errors, f"{text}\n")

    def status(self, text: str) -> None:
        """Write what the program does; a script does so only to a terminal, as an error."""
        self.end_answer()
        stream = self._errors if self.is_script else self._out
        if not self.is_script or stream.isatty():
            self._put(stream, f"{clean(text)}\n")

    def news(self, text: str) -> None:
        """Write a line of progress, unless the last one is recent."""
        if self._clock() >= self._next_news:
            self._next_news = self._clock() + NEWS_INTERVAL
            self.status(text)

    def begin_answer(self, speaker: str) -> None:
        """Write the name of the speaker of the following lines; a blank line in a script."""
        self.end_answer()
        self._next_news = 0.0
        self._open = True
        self._answers += 1
        if not self.is_script:
            self._write(f"{speaker}: ")
        elif self._answers > 1:
            self._write("\n")

    def answer(self, text: str) -> None:
        """Write complete sentences, since a screen reader would speak partial ones in pieces."""
        self._held += self._cleaner.feed(text)
        complete = _SENTENCE.match(self._held)
        if complete is None and len(self._held) > LONGEST_HELD:
            complete = _WORDS.match(self._held)
        if complete is not None:
            self._held = self._held[complete.end() :]
            self._write(complete[0])

    def end_answer(self) -> None:
        """Write the rest of an answer, and end its line."""
        if self._open:
            self._open = False
            rest = (self._held + self._cleaner.flush()).rstrip("\n")
            self._held = ""
            self._write(f"{rest}\n")

    def bell(self) -> None:
        """Ring the bell of a terminal."""
        if self.is_terminal:
            self._write(BELL)

    def ask_terminal(self, sequence: str) -> None:
        """Write an escape sequence to the terminal; nothing is written to a file."""
        if self.is_terminal:
            self._write(sequence)

    def _write(self, text: str) -> None:
        self._put(self._out, text)

    def _put(self, stream: TextIO, text: str) -> None:
        if stream in self._gone:
            return
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            self._gone.add(stream)
            raise


class SentenceWriter:
    """An `AnswerSink` whose output is written once."""

    def __init__(self, output: PlainOutput) -> None:
        self._output = output
        self._is_unfinished = False

    def append(self, text: str) -> None:
        """Write the sentences that `text` completes."""
        if not self._is_unfinished:
            text = text.lstrip()
            if not text:
                return
            self._is_unfinished = True
            self._output.begin_answer(SPEAKER)
        self._output.answer(text)

    def append_reasoning(self, text: str, tokens: int = 0) -> None:
        """Nothing: reasoning is not read out."""

    def annotate(self, note: str, facts: str = "") -> None:
        """Nothing: /stats writes the figures."""

    def answered_by(self, model: str) -> None:
        """Report that another machine answers."""
        self._output.line(f"Answered by {clean(model)}, not on this machine.")

    def finish(self, ending: str = "") -> None:
        """End the answer, and give the reason if it ended abnormally."""
        self._output.end_answer()
        if ending:
            # The square before the words would be read out as "black square".
            words = ending.lstrip("■ ")
            self._output.line(f"{words[:1].upper()}{words[1:]}.")
