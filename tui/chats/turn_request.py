"""The request to the daemon for one answer."""

from __future__ import annotations

from typing import Any

import msgspec

from .chat import Chat
from .context_view import RequestMessage, request_messages


class TurnRequest(msgspec.Struct, frozen=True):
    """A conversation and how to answer it; `conversation` labels its pages in the KV cache.

    With `continues` the last message, an answer, is continued. With `route` "local" it stays on
    this machine; `consent` is the daemon's token for the user's consent. `tools` are functions
    that it may call. An `attached` answer ends with this program, others can be resumed.
    """

    messages: list[RequestMessage]
    model: str | None = None
    conversation: str = ""
    sampling: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    thinking: str = ""
    private: bool = False
    continues: bool = False
    max_tokens: int | None = None
    batch: bool = False
    route: str = ""
    consent: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    attached: bool = False

    @classmethod
    def of(cls, chat: Chat, model: str | None, *, continues: bool = False) -> TurnRequest:
        """Return the request for the chat's path."""
        return cls(
            request_messages(chat),
            model,
            conversation=chat.label,
            sampling=dict(chat.settings.sampling),
            thinking=chat.settings.thinking,
            private=chat.temporary,
            continues=continues,
            tools=chat.functions,
            attached=chat.temporary,
        )

    def body(self) -> dict[str, object]:
        """Return the body of `POST /ingle/v1/generations`."""
        sampling = {name: value for name, value in self.sampling.items() if name != "max_tokens"}
        limit = self.sampling.get("max_tokens") if self.max_tokens is None else self.max_tokens
        body: dict[str, object] = {
            "messages": self.messages,
            "model": self.model,
            "sampling": sampling,
            "reasoning": self.reasoning(),
            "conversation": self.conversation,
            "private": self.private,
            "continues": self.continues,
            "priority": "batch" if self.batch else None,
            "route": self.route,
            "consent": self.consent,
            "tools": self.tools,
            "attached": self.attached,
        }
        given = {name: value for name, value in body.items() if value}
        if self.tools:
            # A small model that may call several tools edits files before it has read them.
            given["parallel_tool_calls"] = False
        return given if limit is None else given | {"max_tokens": int(limit)}

    def reasoning(self) -> dict[str, object] | None:
        """Return the reasoning options, None for the model's default."""
        if not self.thinking:
            return None
        if self.thinking in ("on", "off"):
            return {"enabled": self.thinking == "on"}
        return {"enabled": True, "effort": self.thinking}
