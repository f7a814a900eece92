"""`DoctorScreen`: one screen about terminal, machine and daemon, to paste into an issue."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ..commands import doctor_report
from ..commands.doctor_report import Fact
from ..text.terminal_safe_text import clean
from .dialog import Dialog

if TYPE_CHECKING:
    from ..commands.chat_session import ChatSession

NAME_WIDTH = 13
AROUND = 8
"""Lines of the dialog that are not facts."""


class DoctorScreen(Dialog[None]):
    """Shows the facts as they arrive; nothing leaves this machine unless the user copies it."""

    DEFAULT_CSS = """
    DoctorScreen VerticalScroll { height: auto; max-height: 36; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "dismiss", "Close", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]

    def __init__(self, session: ChatSession) -> None:
        super().__init__("Doctor", "y copies everything  ·  esc closes")
        self._session = session
        self._facts: list[Fact] = []

    def body(self) -> ComposeResult:
        """The facts."""
        with VerticalScroll():
            yield Static("Checking …", id="facts", markup=False)

    def on_mount(self) -> None:
        """Start collecting the facts."""
        self.run_worker(self._examine)

    async def _examine(self) -> None:
        session, size = self._session, self._size_fact()
        self._facts = await doctor_report.quick_facts(session, size)
        self._show()
        # The machine is inspected last: that can take a second.
        self._facts += await doctor_report.finding_facts(session.client)
        self._show()

    def on_resize(self) -> None:
        """Wrap the facts for the new width, and keep the keys visible."""
        rows = max(3, self.size.height * 9 // 10 - AROUND)
        self.query_one(VerticalScroll).styles.max_height = min(36, rows)
        size = self._size_fact()
        self._facts = [size if fact[0] == size[0] else fact for fact in self._facts]
        self.call_after_refresh(self._show)

    def _size_fact(self) -> Fact:
        """The current size: a report copied after a resize must not contain the old one."""
        size = self.size
        sync = self.app._sync_available  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType]
        return doctor_report.size_fact(os.environ, size.width, size.height, sync)

    def _show(self) -> None:
        if not self._facts:
            return
        # One cell less, for a wide glyph.
        room = max(20, self.query_one("#facts").size.width - NAME_WIDTH - 1)
        lines: list[Content] = []
        for name, value in self._facts:
            parts = textwrap.wrap(clean(value), room) or [""]
            lines.append(Content.assemble((name.ljust(NAME_WIDTH), "$secondary"), parts[0]))
            lines += [Content(" " * NAME_WIDTH + part) for part in parts[1:]]
        self.query_one("#facts", Static).update(Content("\n").join(lines))

    def action_copy(self) -> None:
        """Copy the report."""
        if self._facts:
            self._session.copy(doctor_report.report(self._facts))
