"""`answer_with_tools`: one prompt, answered by a model that may use tools in this folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest, ToolEffect

from ..chats.chat import Chat, ChatSettings
from ..chats.history_protocol import NullRecorder
from ..chats.tool_steps import rounds
from ..chats.turn_request import TurnRequest
from ..session.chat_client import chat_client
from ..session.turn import Turn, add_answer, add_prompt
from ..text.terminal_safe_text import clean
from ..tools.chat_tools import ALL_EFFECTS, ChatTools
from ..tools.tool_rounds import ROUNDS, run_calls
from .plain_output import PlainOutput
from .plain_tools import ask_consent, step_line
from .plain_turn import follow_turn, show_progress

if TYPE_CHECKING:
    from ..chats.message import Message
    from ..settings.chat_folders import ChatFolders

T = TypeVar("T")

REMINDERS, REMINDER = 2, "Go on until the task is done. Then say what you did."

LEVELS: dict[str, frozenset[ToolEffect]] = {
    "ask": frozenset(("read",)),
    "read": frozenset(("read",)),
    "edit": frozenset(("read", "edit")),
    "run": frozenset(("read", "edit", "run")),
    "all": ALL_EFFECTS,
}
"""What is allowed without a question; the rest is asked at a terminal, and declined without one."""


def answer_with_tools(
    socket_path: str,
    folders: ChatFolders,
    model: str | None,
    prompt: str,
    level: str,
    tool_host: Sequence[str] = (),
) -> None:
    """Write the answer to stdout, and each step to stderr; raises `ClientError`."""
    is_person = sys.stdin.isatty() and sys.stderr.isatty()
    session = ToolPrompt(socket_path, folders, LEVELS[level], tool_host, is_person=is_person)
    asyncio.run(session.answer(model, prompt))


class ToolPrompt:
    """A conversation of one prompt, which is not kept; see `ToolUser` and `StepView`."""

    def __init__(
        self,
        socket_path: str,
        folders: ChatFolders,
        allowed: frozenset[ToolEffect],
        tool_host: Sequence[str],
        *,
        is_person: bool,
    ) -> None:
        self.client = chat_client(socket_path)
        self.folders: ChatFolders | None = folders
        self.history = NullRecorder()
        self.chat = Chat(ChatSettings(tools=str(Path.cwd())))
        self._allowed = allowed
        self._is_person = is_person
        self._news = PlainOutput(sys.stderr, sys.stderr)
        self._tools = ChatTools(
            self, self._consent, tool_host, ALL_EFFECTS if is_person else allowed
        )

    async def answer(self, model: str | None, prompt: str) -> None:
        """Answer, running calls until the model has none; raises `ClientError`."""
        last = add_prompt(self.chat, self.history, prompt)
        reminders = REMINDERS
        try:
            while True:
                turn = await self._ask(model, last)
                if turn.message.facts.calls:
                    last = await run_calls(self._tools, self.chat, self.history, self)
                    self._check_rounds()
                elif turn.text.strip() or last.role != "tool" or not reminders:
                    break
                else:  # small models end without a word after a call
                    reminders -= 1
                    last = add_prompt(self.chat, self.history, REMINDER)
        finally:
            await self._tools.close()
        if not turn.text.strip():
            raise ClientError(
                "The model ended without an answer.", "Ask again, or take a more capable model."
            )

    async def _ask(self, model: str | None, last: Message) -> Turn:
        functions = await self._tools.prepare()
        request = msgspec.structs.replace(
            TurnRequest.of(self.chat, model), tools=functions, attached=True
        )
        answer = add_answer(self.chat, self.history, model or "", last.id)
        writer = AnswerWriter(self._news)
        turn = Turn(
            self.client, self.history, answer, writer, lambda: show_progress(self._news, turn)
        )
        if await follow_turn(turn, turn.run(request)):
            raise KeyboardInterrupt
        if turn.error is not None:
            raise turn.error
        if turn.ending == "stopped":
            raise ClientError("The answer was cancelled before its end.", "Ask again.")
        writer.write_rest(is_answer=not answer.facts.calls)
        return turn

    def _check_rounds(self) -> None:
        count = rounds(self.chat)
        if count % ROUNDS == 0 and not (
            self._is_person
            and _typed(f"The model has used tools {count} times in a row. Go on? y or n: ") == "y"
        ):
            raise ClientError(
                f"There is no answer yet after {count} rounds of tools.",
                "Ask for less at once, or a more capable model.",
            )

    async def _consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        if asked.effect in self._allowed:
            return "once"
        if not self._is_person:
            self._news.line(f"Declined: {asked.title}. --tools {asked.effect} would allow it.")
            return None
        return ask_consent(self._news, _choose, asked)

    def begin_step(self, message: Message) -> None:
        """Nothing: the line is written when the call has ended."""

    def step_output(self, message: Message, text: str) -> None:
        """Nothing: see `begin_step`."""

    def end_step(self, message: Message) -> None:
        """Write what became of the call."""
        assert message.facts.step is not None
        self._news.line(step_line(message.facts.step))


class AnswerWriter:
    """An `AnswerSink`: the text of the last answer goes to stdout, text before calls to stderr."""

    def __init__(self, news: PlainOutput) -> None:
        self._news = news
        self._text = ""

    def append(self, text: str) -> None:
        """Keep the text until it is known whether calls follow it."""
        self._text += text

    def write_rest(self, *, is_answer: bool) -> None:
        """Write the text."""
        if not is_answer:
            if self._text.strip():
                self._news.line(self._text.strip())
            return
        text = clean(self._text) if sys.stdout.isatty() else self._text
        if text.strip():
            sys.stdout.write(f"{text.rstrip()}\n")
        sys.stdout.flush()

    def append_reasoning(self, text: str, tokens: int = 0) -> None:
        """Nothing: reasoning is no part of the answer."""

    def annotate(self, note: str, facts: str = "") -> None:
        """Nothing."""

    def answered_by(self, model: str) -> None:
        """Report that another machine answers."""
        self._news.line(f"Answered by {model}, not on this machine.")

    def finish(self, ending: str = "") -> None:
        """Report an end at the limit of the context."""
        if ending:
            self._news.line(ending.lstrip("■ "))


def _choose(title: str, choices: Sequence[T], words: Callable[[T], str]) -> T | None:
    """Return the choice whose number is typed; the question is on stderr, as stdout has the
    answer.
    """
    lines = [title, *(f"{n}. {words(choice)}" for n, choice in enumerate(choices, 1))]
    typed = _typed("\n".join([*lines, "Number, or enter for no: "]))
    numbers = [str(n) for n in range(1, len(choices) + 1)]
    return choices[numbers.index(typed)] if typed in numbers else None


def _typed(question: str) -> str:
    sys.stderr.write(clean(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()
