"""The parts of an answer: text, reasoning, tool calls."""

from __future__ import annotations

from typing import NamedTuple


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
