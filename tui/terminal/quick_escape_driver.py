"""Textual terminal driver that reports the escape key without delay.

An escape may be the key or the start of a sequence. Textual's own loop decides only at its next
poll, a tenth of a second later; that is too late for the key that stops an answer. The Kitty
keyboard protocol distinguishes the two.
"""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress

from textual import constants
from textual._parser import ParseEOF, ParseError  # pyright: ignore[reportPrivateUsage]
from textual._xterm_parser import XTermParser  # pyright: ignore[reportPrivateUsage]
from textual.drivers.linux_driver import LinuxDriver

READ_SIZE = 4096
IDLE_SECONDS = 0.1
"""Seconds until the end of the program is noticed."""


class QuickEscapeDriver(LinuxDriver):
    """Reads keys like its base; after a lone escape it polls again as soon as it can be decided."""

    def run_input_thread(self) -> None:
        """Convert terminal input into events until the driver stops."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        escaped = False
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
                    for event in parser.feed(decode(data)):
                        self.process_message(event)
                else:
                    escaped = False
                for event in parser.tick():
                    self.process_message(event)
        with suppress(EOFError, ParseEOF, ParseError):
            for _ in parser.feed(""):
                pass
