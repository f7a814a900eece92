"""Textual terminal driver that reports the escape key without delay, and writes typed text first.

An escape may be the key or the start of a sequence. Textual's own loop decides only at its next
poll, a tenth of a second later; that is too late for the key that stops an answer. The Kitty
keyboard protocol distinguishes the two.
"""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from collections.abc import Generator
from contextlib import contextmanager, suppress

from textual import constants
from textual._parser import ParseEOF, ParseError  # pyright: ignore[reportPrivateUsage]
from textual._xterm_parser import XTermParser  # pyright: ignore[reportPrivateUsage]
from textual.drivers.linux_driver import LinuxDriver

from .line_speed import REPLY
from .paced_writer import PacedWriter

READ_SIZE = 4096
IDLE_SECONDS = 0.1
"""Seconds until the end of the program is noticed."""
_BEGUN = re.compile(rb"\x1b\[\?[\d;]*\Z")
"""The beginning of a reply; no key begins like it."""


class QuickEscapeDriver(LinuxDriver):
    """Reads keys like its base; after a lone escape it polls again as soon as it can be decided.

    It writes no faster than the terminal displays, if the terminal tells.
    """

    _writer: PacedWriter | None = None
    _is_first = False

    @property
    def is_behind(self) -> bool:
        """Whether output waits for the terminal."""
        return self._writer is not None and self._writer.is_behind

    @property
    def is_paced(self) -> bool:
        """Whether the terminal tells how fast it displays."""
        return self._writer is not None and self._writer.replies

    def write(self, data: str) -> None:
        """Write output; the base's own writer gets none."""
        if self._writer is None:
            assert self._file is not None, "the chat has a terminal"
            self._writer = PacedWriter(self._file)
            self._writer.start()
        self._writer.write(data, first=self._is_first)

    @contextmanager
    def writes_first(self) -> Generator[None]:
        """Write what is drawn meanwhile before all that waits for other rows."""
        self._is_first = True
        try:
            yield
        finally:
            self._is_first = False

    def disable_input(self) -> None:
        """Stop reading, after the replies to our queries: the next program would get them."""
        if self._writer is not None:
            self._writer.wait_for_replies()
        super().disable_input()

    def close(self) -> None:
        """Write what waits, and end the threads."""
        super().close()
        if self._writer is not None:
            self._writer.stop()
            self._writer = None

    def run_input_thread(self) -> None:
        """Convert terminal input into events until the driver stops."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        escaped = False
        begun = b""
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                # A little longer than the parser waits, or it would be asked too early.
                wait = constants.ESCAPE_DELAY + 0.001 if escaped else IDLE_SECONDS
                if selector.select(wait):
                    data = os.read(self.fileno, READ_SIZE)
                    if not data:
                        break
                    escaped = data.endswith(b"\x1b")
                    data, begun = self._without_replies(begun + data)
                    for event in parser.feed(decode(data)) if data else ():
                        self.process_message(event)
                else:
                    escaped = False
                for event in parser.tick():
                    self.process_message(event)
        with suppress(EOFError, ParseEOF, ParseError):
            for _ in parser.feed(""):
                pass

    def _without_replies(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the input without the replies to our queries, and the beginning of the next."""
        begun = _BEGUN.search(data)
        rest = b"" if begun is None else begun[0]
        data, count = REPLY.subn(b"", data.removesuffix(rest))
        if self._writer is not None:
            for _ in range(count):
                self._writer.replied()
        return data, rest
