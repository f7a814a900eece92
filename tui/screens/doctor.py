"""`DoctorScreen`: one screen about terminal, machine and daemon, to paste into an issue."""

from __future__ import annotations

import asyncio
import os
import textwrap
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from .. import examination, wording
from ..errors import ClientError
from ..examination import Fact
from ..transcript.cleaning import clean

if TYPE_CHECKING:
    from ..api import DeviceGauges
    from ..host import ChatHost

NAME_WIDTH = 13
AROUND = 8
"""Lines of the dialog that are not facts."""
HINT = "y copies it all  ·  esc closes"


class DaemonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon's status says about itself."""

    version: str = ""
    pid: int = 0
    uptime: float = 0.0
    socket: str = ""
    address: str | None = None
    memory: dict[str, int] = {}


class DoctorScreen(ModalScreen[None]):
    """Asks everybody, and shows what they said; nothing of it leaves this machine by itself."""

    DEFAULT_CSS = """
    DoctorScreen .dialog { width: 110; }
    DoctorScreen VerticalScroll { height: auto; max-height: 36; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Close", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]

    def __init__(self, host: ChatHost, devices: list[DeviceGauges]) -> None:
        super().__init__()
        self._host = host
        self._devices = devices
        self._facts: list[Fact] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Doctor").stylize("bold $primary"), classes="dialog-title")
            with VerticalScroll():
                yield Static("Looking …", id="facts", markup=False)
            yield Static(Content(HINT).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Ask."""
        self.run_worker(self._examine)

    async def _examine(self) -> None:
        daemon, memory = await self._daemon()
        host, size = self._host, self.size
        env = dict(os.environ)
        sync = self._sync_available
        terminal = await asyncio.to_thread(
            examination.terminal_facts, env, size.width, size.height, sync
        )
        self._facts = [
            *await asyncio.to_thread(examination.program_facts),
            *terminal,
            *await asyncio.to_thread(examination.clipboard_facts, env),
            *examination.machine_facts(self._devices, memory),
            *daemon,
            *examination.model_facts(host.state.loaded, host.state.model_name, self._speed()),
            *self._paths(),
        ]
        self._show()

    def on_resize(self) -> None:
        """Lay the facts out for the new width; the keys stay in sight."""
        rows = max(3, self.size.height * 9 // 10 - AROUND)
        self.query_one(VerticalScroll).styles.max_height = min(36, rows)
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        if not self._facts:
            return
        room = max(20, self.query_one("#facts").size.width - NAME_WIDTH)
        lines: list[Content] = []
        for name, value in self._facts:
            parts = textwrap.wrap(clean(value), room) or [""]
            lines.append(Content.assemble((name.ljust(NAME_WIDTH), "$secondary"), parts[0]))
            lines += [Content(" " * NAME_WIDTH + part) for part in parts[1:]]
        self.query_one("#facts", Static).update(Content("\n").join(lines))

    @property
    def _sync_available(self) -> bool:
        app = self._host.chat_app
        return app._sync_available  # pyright: ignore[reportPrivateUsage]

    async def _daemon(self) -> tuple[list[Fact], dict[str, int]]:
        client = self._host.client
        try:
            said = await client.request(DaemonFacts, "GET", "/ingle/v1/status")
        except ClientError as error:
            return [("daemon", error.message)], {}
        up = wording.duration(said.uptime)
        facts = [
            ("daemon", f"ingle {said.version} · process {said.pid} · up {up}"),
            ("socket", examination.shown(said.socket or client.endpoint)),
        ]
        if said.address:
            facts.append(("address", said.address))
        return facts, said.memory

    def _speed(self) -> str:
        """Figures of the last answer."""
        answers = (m for m in reversed(self._host.chat.path) if m.role == "assistant")
        facts = next((message.facts for message in answers), None)
        if facts is None or facts.speed is None:
            return ""
        parts = [wording.speed(facts.speed)]
        if facts.first_token is not None:
            parts.append(f"first token after {wording.duration(facts.first_token)}")
        return " · ".join(parts)

    def _paths(self) -> list[Fact]:
        folders = self._host.folders
        facts = [("python", examination.interpreter())]
        if folders is not None:
            facts += [
                ("chats", examination.shown(folders.chats)),
                ("settings", examination.shown(folders.config)),
            ]
        return facts

    def action_copy(self) -> None:
        """Copy the report."""
        if self._facts:
            self._host.copy(examination.report(self._facts))
