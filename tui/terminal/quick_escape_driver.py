"""`QuickEscapeDriver`: Textual's terminal driver, with an escape key that is felt at once.

An escape may be the key or the start of a sequence. Textual's own loop finds out only when it next
looks, a tenth of a second later; that is too late for the key that stops an answer. Terminals with
the Kitty keyboard protocol tell the two apart by themselves.
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
"""How long it takes to notice that the program ends."""


class QuickEscapeDriver(LinuxDriver):
    """Reads keys like its base; after a lone escape it looks again as soon as that is decided."""

    def run_input_thread(self) -> None:
        """Turn what the terminal sends into events until the driver stops."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        escaped = False
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                # A little more than the parser waits, or it would be asked too early.
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
