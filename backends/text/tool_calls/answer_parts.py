"""What the text of an answer is told apart into, while it comes."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Text(NamedTuple):
    """A piece of what is said to the reader."""

    text: str


class ReasoningText(NamedTuple):
    """A piece of what the model thinks before it answers."""

    text: str


class CallStart(NamedTuple):
    """A call begins; one that was begun before is complete."""

    name: str
    call_id: str | None = None
    """What the model calls it, where its format has such names."""


class CallArguments(NamedTuple):
    """A piece of the arguments of the call begun last; all pieces are the text of a JSON object."""

    text: str


Part = Text | ReasoningText | CallStart | CallArguments


class AnswerParser(Protocol):
    """Reads one answer in pieces, however it is cut, and never fails on what a model may write.

    What turns out to be no call is text again, and nothing of it is lost.
    """

    @property
    def thinking(self) -> bool:
        """Whether the model thinks at this point."""
        ...

    def push(self, text: str) -> list[Part]:
        """What became certain with this piece."""
        ...

    def finish(self) -> list[Part]:
        """The rest, now that no more follows: arguments that broke off are completed."""
        ...
