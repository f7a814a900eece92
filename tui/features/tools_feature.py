"""`ToolsFeature`: runs the tool calls of answers, and shows them as steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from textual.worker import Worker

from ingle.daemon.client.tool_host import ToolHostFailed

from ..chats.message import Message
from ..chats.tool_steps import open_calls, rounds
from ..chats.turn_request import TurnRequest
from ..session.turn import Turn
from ..text import number_format
from ..tools.tool_rounds import ROUNDS, run_calls
from ..transcript.entries.step_entry import StepEntry
from ..widgets.tool_line import ToolLine
from .feature import Feature

if TYPE_CHECKING:
    from .chat_host import ChatHost


class ToolsFeature(Feature):
    """See `StepView`: an entry of the transcript for each call."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._line: ToolLine | None = None
        self._running: Worker[None] | None = None
        self._steps: dict[str, StepEntry] = {}

    def on_chat_opened(self) -> None:
        """See `Feature`."""
        if self.host.chat.settings.tools:
            self.host.run_worker(self._prepare(), group="tools")

    async def _prepare(self) -> None:
        try:
            await self.host.tools.prepare()
        except ToolHostFailed as error:
            self.host.refuse(error)
        self.on_state()

    async def prepare_request(self, request: TurnRequest) -> TurnRequest:
        """See `Feature`: offer the tools, which may have changed."""
        await self._prepare()
        return msgspec.structs.replace(request, tools=self.host.chat.functions)

    def on_state(self) -> None:
        """See `Feature`: show whether tools are on, and where."""
        folder = self.host.chat.settings.tools
        if self._line is None:
            if not folder:
                return
            self._line = ToolLine()
            self.host.query_one("#dock").mount(self._line, before="#entry")
        count = len(self.host.tools.tools)
        self._line.display = bool(folder)
        self._line.folder = folder
        self._line.facts = (
            f"{number_format.counted(count, 'tool')} · changes and commands ask first"
            if count
            else "starting"
        )

    # Calls

    def on_turn_ended(self, turn: Turn) -> None:
        """See `Feature`."""
        if turn.ending == "answered" and turn.message.facts.calls:
            self.run()

    def run(self) -> None:
        """Run the open calls at the end of the path, and go on."""
        host = self.host
        if host.chat.settings.tools:
            for entry in list(host.transcript.entries):
                if isinstance(entry, StepEntry) and not entry.id:
                    host.transcript.drop(entry)  # it says that the call is not finished
            host.runs_tools = True
            self._running = host.run_worker(self._run(), group="steps")

    async def _run(self) -> None:
        host, chat = self.host, self.host.chat
        try:
            has_calls = bool(open_calls(chat))
            last = await run_calls(host.tools, chat, host.history, self)
            goes_on = not has_calls or await self._goes_on()
        finally:
            self._steps.clear()
            self._running = None
            host.runs_tools = False
        if host.chat is not chat:
            return
        if goes_on:
            host.go_on(last)
        else:
            host.return_queue()

    async def _goes_on(self) -> bool:
        count = rounds(self.host.chat)
        return count % ROUNDS != 0 or await self.host.front.confirm(
            "Let the model go on?",
            f"It has used tools {count} times in a row for this prompt.",
            yes="goes on",
            no="stops here",
        )

    def on_stop(self) -> None:
        """See `Feature`."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
            self.host.runs_tools = False
            self.host.return_queue()

    def begin_step(self, message: Message) -> None:
        """Show a call that runs."""
        entry = self._steps[message.id] = StepEntry(message, running=True)
        self.host.transcript.add(entry)

    def step_output(self, message: Message, text: str) -> None:
        """Show the last line of its output."""
        entry = self._steps[message.id]
        entry.append(text)
        self.host.transcript.update_entry(entry)

    def end_step(self, message: Message) -> None:
        """Show its result."""
        if message.id not in self.host.chat.messages or not self.host.is_attached:
            return  # another chat is open, or the program ends
        entry = self._steps.get(message.id)
        if entry is not None and self.host.transcript.holds(entry):
            entry.complete(message)
            self.host.transcript.update_entry(entry)
        else:  # the transcript was drawn anew meanwhile
            self.host.transcript.add(StepEntry(message))
