"""`TurnRequest`: what is asked of the daemon for one answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from .chat import Chat
from .context_view import request_messages


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A conversation and how to answer it; `conversation` is what its pages in the cache are named.

    With `continues` the last message, an answer, is gone on with. `route` "local" keeps it on this
    machine whatever the model is; `consent` is what the daemon gave out for a yes.
    """

    messages: list[dict[str, str]]
    model: str | None = None
    conversation: str = ""
    sampling: dict[str, float] = field(default_factory=dict[str, float])
    thinking: str = ""
    private: bool = False
    continues: bool = False
    max_tokens: int | None = None
    batch: bool = False
    route: str = ""
    consent: str = ""

    @classmethod
    def of(cls, chat: Chat, model: str | None, *, continues: bool = False) -> TurnRequest:
        """What the chat's path asks for."""
        return cls(
            request_messages(chat),
            model,
            conversation=chat.label,
            sampling=dict(chat.settings.sampling),
            thinking=chat.settings.thinking,
            private=chat.temporary,
            continues=continues,
        )

    def body(self) -> dict[str, object]:
        """The body of `POST /ingle/v1/generations`."""
        sampling = {name: value for name, value in self.sampling.items() if name != "max_tokens"}
        limit = self.sampling.get("max_tokens") if self.max_tokens is None else self.max_tokens
        body: dict[str, object] = {
            "messages": self.messages,
            "model": self.model,
            "sampling": sampling,
            "max_tokens": None if limit is None else int(limit),
            "reasoning": self.reasoning(),
            "conversation": self.conversation,
            "private": self.private,
            "continues": self.continues,
            "priority": "batch" if self.batch else None,
            "route": self.route,
            "consent": self.consent,
        }
        said = {name: value for name, value in body.items() if value or name == "max_tokens"}
        return {name: value for name, value in said.items() if value is not None}

    def reasoning(self) -> dict[str, object] | None:
        """How much the model is to think, None where that is left to it."""
        if not self.thinking:
            return None
        if self.thinking in ("on", "off"):
            return {"enabled": self.thinking == "on"}
        return {"enabled": True, "effort": self.thinking}
