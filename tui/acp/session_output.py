"""Answers and the results of commands as updates of a session."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from acp import helpers

from ..plain.plain_output import PlainOutput
from ..text.terminal_safe_text import StreamCleaner, clean

if TYPE_CHECKING:
    from .update_queue import UpdateQueue


class SessionOutput(PlainOutput):
    """Lines as text of the agent; errors are kept for the end of the prompt."""

    def __init__(self, updates: UpdateQueue) -> None:
        super().__init__(io.StringIO(), io.StringIO())
        self._updates = updates
        self.problems: list[tuple[str, str | None]] = []

    def line(self, text: str = "") -> None:
        """Send a line."""
        self._updates.say(f"{clean(text)}\n\n")

    def error(self, message: str, hint: str | None = None) -> None:
        """Keep an error."""
        self.problems.append((message, hint))

    def status(self, text: str) -> None:
        """Nothing: the client shows that the agent works."""


class AnswerUpdates:
    """An `AnswerSink`: text and thoughts go to the client as they come."""

    def __init__(self, updates: UpdateQueue) -> None:
        self._updates = updates
        self._text = StreamCleaner()
        self._thoughts = StreamCleaner()

    def append(self, text: str) -> None:
        """Send text of the answer."""
        self._updates.say(self._text.feed(text))

    def append_reasoning(self, text: str, tokens: int = 0) -> None:
        """Send a thought."""
        if shown := self._thoughts.feed(text):
            self._updates.put(helpers.update_agent_thought_text(shown))

    def annotate(self, note: str, facts: str = "") -> None:
        """Nothing: the client counts for itself."""

    def answered_by(self, model: str) -> None:
        """Say that another machine answers."""
        self._updates.say(f"Answered by {clean(model)}, not on this machine.\n\n")

    def finish(self, ending: str = "") -> None:
        """Send the rest."""
        self._updates.say(self._text.flush())
