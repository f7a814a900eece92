"""Tool calls of a session: shown to the client, with its user's consent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from acp import helpers
from acp.schema import AllowedOutcome, PermissionOption, PermissionOptionKind, ToolCallUpdate

from ingle.daemon.client.tool_host import ToolHostFailed
from ingle.daemon.client.tool_types import CallResult, ConsentChoice, ConsentRequest, ToolEffect

from ..chats.message import Message, RequestedCall
from ..chats.tool_steps import open_calls, rounds
from ..plain.plain_tools import PlainTools
from ..tools.chat_tools import ALL_EFFECTS, ChatTools
from ..tools.tool_rounds import ROUNDS, run_calls
from .session_options import OFFERED
from .tool_updates import (
    KINDS,
    MOST_SHOWN,
    call_begun,
    call_ended,
    call_output,
    diff_contents,
    tool_kind,
)

if TYPE_CHECKING:
    from .agent_session import AgentSession

SERVER_SECONDS = 15.0
"""That a prompt waits for MCP servers; those that take longer are offered with the next request."""


class SessionTools(ChatTools):
    """Runs no call that the session's mode does not allow, whatever was consented to before."""

    async def call(
        self, name: str, call: RequestedCall, output: Callable[[str], object]
    ) -> tuple[CallResult, str]:
        """See `ChatTools`."""
        if self.effects != ALL_EFFECTS and call.name not in [tool.name for tool in self.tools]:
            why = f"There is no tool {call.name} in this mode. The user can choose another mode."
            return CallResult(name, why, why, failed=True), ""
        return await super().call(name, call, output)


class SessionSteps(PlainTools):
    """See `StepView`; asks the client for consent."""

    def __init__(self, session: AgentSession) -> None:
        super().__init__(session)
        self._agent = session
        self._outputs: dict[str, str] = {}
        self._reported: set[str] = set()
        self.is_out_of_rounds = False

    async def prepared(self) -> tuple[dict[str, Any], ...]:
        """Return the functions to offer, once the servers have started."""
        tools = self._agent.tools
        tools.effects = OFFERED[self._agent.mode]
        with suppress(ToolHostFailed, TimeoutError):
            async with asyncio.timeout(SERVER_SECONDS):
                await tools.settle()
        for server in tools.servers:
            if server.state == "failed" and server.name not in self._reported:
                self._reported.add(server.name)
                self._agent.output.line(f"{server.name} did not start: {server.message}")
        return await super().prepared()

    async def run(self) -> Message | None:
        """Run the open calls; return the last result, None if the model is not to go on."""
        session = self._agent
        has_calls = bool(open_calls(session.chat))
        last = await run_calls(session.tools, session.chat, session.history, self)
        self.is_out_of_rounds = has_calls and rounds(session.chat) % ROUNDS == 0
        return None if self.is_out_of_rounds else last

    async def consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        """Ask the client, unless the mode decides."""
        mode, updates = self._agent.mode, self._agent.updates
        if asked.effect not in OFFERED[mode]:
            return None
        if mode == "edit" and asked.effect == "edit":
            return "once"
        is_call = asked.id in self._outputs
        if not is_call:  # the start of a server that the folder names
            title = asked.title
            updates.put(helpers.start_tool_call(asked.id, title, kind="other", status="pending"))
        await updates.drain()
        answer = await self._agent.peer.request_permission(
            self._agent.chat.id, self._question(asked), _options(asked)
        )
        outcome = answer.outcome
        choice = _CHOICES.get(outcome.option_id) if isinstance(outcome, AllowedOutcome) else None
        if not is_call:
            state = "failed" if choice in (None, "never") else "completed"
            updates.put(helpers.update_tool_call(asked.id, status=state))
        return choice

    def _question(self, asked: ConsentRequest) -> ToolCallUpdate:
        said = [asked.leaves or "Nothing leaves this machine."]
        if not asked.confined:
            said.append("It is not confined: it can do whatever you can do.")
        content: list[Any] = []
        if asked.preview_format == "diff":
            content += diff_contents(asked.preview, self._agent.chat.settings.tools)
        elif asked.preview:
            preview = asked.preview[:MOST_SHOWN]
            content.append(helpers.tool_content(helpers.text_block(f"```\n{preview}\n```")))
        content.append(helpers.tool_content(helpers.text_block(" ".join(said))))
        return ToolCallUpdate(
            tool_call_id=asked.id,
            title=asked.title,
            kind=KINDS[asked.effect],
            status="pending",
            content=content,
        )

    def begin_step(self, message: Message) -> None:
        """Show a call that runs."""
        self._outputs[message.id] = ""
        assert message.facts.step is not None
        effects: dict[str, ToolEffect] = {t.name: t.effect for t in self._agent.tools.tools}
        kind = tool_kind(message.facts.step.call.name, effects)
        folder = self._agent.chat.settings.tools
        self._agent.updates.put(call_begun(message, kind, folder))

    def step_output(self, message: Message, text: str) -> None:
        """Show the end of its output."""
        shown = self._outputs[message.id] = (self._outputs[message.id] + text)[-MOST_SHOWN:]
        self._agent.updates.put(call_output(message, shown))

    def end_step(self, message: Message) -> None:
        """Show its result."""
        self._outputs.pop(message.id, None)
        self._agent.updates.put(call_ended(message, self._agent.chat.settings.tools))


_CHOICES: dict[str, ConsentChoice | None] = {
    "once": "once",
    "always": "always",
    "no": None,
    "never": "never",
}


def _options(asked: ConsentRequest) -> list[PermissionOption]:
    kinds: list[tuple[str, PermissionOptionKind, str]] = [
        ("once", "allow_once", "Allow once"),
        ("always", "allow_always", f"Always in this chat: {asked.scope}"),
        ("no", "reject_once", "Reject"),
        ("never", "reject_always", f"Never in this chat: {asked.scope}"),
    ]
    return [PermissionOption(option_id=name, kind=kind, name=text) for name, kind, text in kinds]
