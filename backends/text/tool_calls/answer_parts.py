"""The parts of an answer: text, reasoning, tool calls."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class AnswerText(NamedTuple):
    """A piece of text for the user."""

    text: str


class AnswerReasoning(NamedTuple):
    """A piece of reasoning."""

    text: str


class CallStart(NamedTuple):
    """Begins a call, and completes the previous one."""

    name: str
    call_id: str | None = None
    """The model's id for the call, if its format has one."""


class CallArguments(NamedTuple):
    """A piece of the arguments of the current call; all pieces together are a JSON object."""

    text: str


Part = AnswerText | AnswerReasoning | CallStart | CallArguments


class AnswerParser(Protocol):
    """Parses one answer incrementally, independent of chunk borders; accepts any input.

    What turns out not to be a call becomes text; nothing is lost.
    """

    @property
    def thinking(self) -> bool:
        """Return whether the model is reasoning at this point."""
        ...

    def push(self, text: str) -> list[Part]:
        """Return the parts that became certain with this text."""
        ...

    def finish(self) -> list[Part]:
        """Return the rest at the end; incomplete arguments are completed."""
        ...
