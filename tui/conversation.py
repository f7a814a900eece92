"""The conversation as it is sent to the model; kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Message:
    """One message; `content` is exactly what was typed or generated."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(slots=True)
class Conversation:
    """Messages in order; an unanswered prompt may be the last one."""

    messages: list[Message] = field(default_factory=list[Message])

    @property
    def title(self) -> str:
        """The first words of the first prompt; no model is asked for it."""
        for message in self.messages:
            if message.role == "user":
                return " ".join(message.content.split()[:8])
        return ""

    @property
    def last_answer(self) -> str | None:
        """The newest answer that has text."""
        for message in reversed(self.messages):
            if message.role == "assistant" and message.content:
                return message.content
        return None

    def add_prompt(self, text: str) -> None:
        """Append what the user asks; a prompt that was never answered is replaced."""
        self.drop_unanswered()
        self.messages.append(Message("user", text))

    def add_answer(self, text: str) -> None:
        """Append what the model said, whole or in part."""
        self.messages.append(Message("assistant", text))

    def drop_unanswered(self) -> None:
        """Forget a last prompt without an answer: models expect the roles to alternate."""
        if self.messages and self.messages[-1].role == "user":
            self.messages.pop()

    def reopen(self) -> bool:
        """Make the last prompt unanswered again; False when there is none."""
        if self.messages and self.messages[-1].role == "assistant":
            self.messages.pop()
        return bool(self.messages) and self.messages[-1].role == "user"

    def as_request(self) -> list[dict[str, str]]:
        """The messages in the shape the API takes."""
        return [{"role": message.role, "content": message.content} for message in self.messages]
