"""`LineReader`: reads prompts, choices and passphrases from the standard input."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TextIO, TypeVar

from ..text import number_format
from ..text.terminal_safe_text import clean
from .plain_output import PlainOutput

T = TypeVar("T")

CONTINUES = "\\"
"""A line that ends in it is continued by the next."""
LONGEST_LINE = 4_000_000
"""Characters of one line; a longer one is not text for a model."""
_MARK = "\ufeff"
"""The byte order mark with which some programs begin a file."""


class LineReader:
    """Reads lines, with the editing and history of readline where a person types them."""

    def __init__(self, output: PlainOutput, source: TextIO | None = None) -> None:
        self._output = output
        self._source = source or sys.stdin
        self._is_first = True
        self.is_person = self._source.isatty()
        self._readline = _load_readline() if self.is_person else None

    def prompt(self, label: str) -> str | None:
        """A prompt typed after `label`; None at the end of the input."""
        lines: list[str] = []
        while (line := self._line("and: " if lines else label)) is not None:
            lines.append(line)
            if not line.endswith(CONTINUES):
                break
            lines[-1] = line.removesuffix(CONTINUES)
        return "\n".join(lines) if lines else None

    def edit(self, label: str, text: str) -> str | None:
        """Let the user edit a line; None at the end of the input."""
        readline = self._readline
        if readline is None:  # it is typed anew
            return self._line(label)
        readline.set_startup_hook(lambda: readline.insert_text(text))
        try:
            return self._line(label)
        finally:
            readline.set_startup_hook()

    def remember(self, prompts: Iterable[str]) -> None:
        """Add earlier prompts, the oldest first, to readline's history."""
        if self._readline is not None:
            for prompt in prompts:
                self._readline.add_history(prompt.replace("\n", " "))

    def choose(self, title: str, choices: Sequence[T], words: Callable[[T], str]) -> T | None:
        """The choice whose number is typed, or None; `words` describes each in a line."""
        self._output.line(title)
        for number, choice in enumerate(choices, 1):
            self._output.line(f"{number}. {words(choice)}")
        answer = self._line("Number, or enter for none: ")
        if answer is None or not answer.strip():
            return None
        if answer.strip().isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        self._output.error(f"There is no number {answer.strip()}.")
        return None

    def confirm(self, question: str) -> bool:
        """Whether a question was answered with yes."""
        answer = self._line(f"{question} Yes or no: ")
        return answer is not None and answer.strip().lower() in ("y", "yes")

    def ask(self, question: str) -> str:
        """One line of text, "" for none."""
        return (self._line(question) or "").strip()

    def secret(self, label: str) -> str:
        """Read a line without echo; "" at the end of the input."""
        from getpass import getpass

        try:
            with _interruptible():
                return getpass(clean(label))
        except EOFError:
            return ""

    def _line(self, label: str) -> str | None:
        if not self.is_person:
            return self._read()
        try:
            with _interruptible():
                return input(clean(label))
        except EOFError:
            self._output.line()
            return None

    def _read(self) -> str | None:
        """The next line that is not too long, None at the end."""
        while line := self._source.readline(LONGEST_LINE + 1):
            if self._is_first:
                self._is_first = False
                line = line.removeprefix(_MARK)
            if len(line) <= LONGEST_LINE:
                return line.rstrip("\n")
            while line and not line.endswith("\n"):
                line = self._source.readline(LONGEST_LINE)
            limit = number_format.tokens(LONGEST_LINE)
            self._output.error(f"A line of more than {limit} characters is left out.")
        return None


@contextmanager
def _interruptible() -> Generator[None]:
    """Let ctrl+c raise `KeyboardInterrupt` at once, also while an event loop handles it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _load_readline() -> ModuleType | None:
    """Let `input` edit lines; None on Windows, where it reads them as they come."""
    try:
        import readline
    except ImportError:
        return None
    # Pasted lines must not run as several prompts. A simple terminal would print the sequence that
    # enables this.
    pasting = "off" if os.environ.get("TERM", "dumb") == "dumb" else "on"
    readline.parse_and_bind(f"set enable-bracketed-paste {pasting}")
    return readline
