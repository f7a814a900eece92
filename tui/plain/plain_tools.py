"""Tools in the plain chat: calls as lines, and consent as a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.daemon.client.tool_host import ToolHostFailed
from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest

from ..chats.tool_steps import open_calls, rounds
from ..tools.tool_rounds import ROUNDS, run_calls

if TYPE_CHECKING:
    from ..chats.message import Message, ToolStep
    from .plain_output import PlainOutput
    from .plain_session import PlainSession

CHOICES: tuple[tuple[ConsentChoice, str], ...] = (
    ("once", "Yes, this time."),
    ("always", "Always in this chat."),
    ("never", "Never in this chat."),
)


class PlainTools:
    """See `StepView`; asks only a user at a terminal."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._output = session.output

    async def prepared(self) -> tuple[dict[str, Any], ...]:
        """Return the functions to offer; none if the tools cannot start."""
        try:
            return await self._session.tools.prepare()
        except ToolHostFailed as error:
            self._output.error(error.message, error.hint)
            return ()

    async def run(self) -> Message | None:
        """Run the open calls; return the last result, None if the model is not to go on."""
        session = self._session
        has_calls = bool(open_calls(session.chat))
        last = await run_calls(session.tools, session.chat, session.history, self)
        count = rounds(session.chat)
        question = f"The model has used tools {count} times in a row. Go on?"
        if has_calls and count % ROUNDS == 0 and not session.reader.confirm(question):
            return None
        return last

    async def consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        """Ask the user; None if there is none."""
        if not self._session.reader.is_person:
            self._output.line(f"Declined, since no user can be asked: {asked.title}.")
            return None
        return ask_consent(self._output, self._session.reader.choose, asked)

    def begin_step(self, message: Message) -> None:
        """Nothing: the line is written when the call has ended."""

    def step_output(self, message: Message, text: str) -> None:
        """Nothing: see `begin_step`."""

    def end_step(self, message: Message) -> None:
        """Write what became of the call."""
        assert message.facts.step is not None
        self._output.line(step_line(message.facts.step))


Choice = tuple[ConsentChoice, str]
Choose = Callable[[str, Sequence[Choice], Callable[[Choice], str]], Choice | None]


def ask_consent(output: PlainOutput, choose: Choose, asked: ConsentRequest) -> ConsentChoice | None:
    """Write what a call would do, and return the user's choice."""
    output.line(f"The model wants to: {asked.title}.")
    if asked.preview:
        output.line(asked.preview.rstrip("\n"))
    output.line(asked.leaves or "Nothing leaves this machine.")
    if not asked.confined:
        output.line("It is not confined: it can do whatever you can do.")
    title = f"Allow it? Always and never hold for: {asked.scope}."
    chosen = choose(title, CHOICES, lambda choice: choice[1])
    return None if chosen is None else chosen[0]


def step_line(step: ToolStep) -> str:
    """Return a call and its result in a sentence."""
    state = " failed" if step.failed else " declined" if step.declined else ""
    return f"Tool {step.call.name}{state}: {step.summary or 'no result'}."
