"""Counts the tokens of a chat's context with the daemon in idle time."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.generation_types import PromptTokenCounts

from ..chats.chat import Chat
from ..chats.context_view import RequestMessage, view_entries
from ..composing.token_estimate import PICTURE
from .context_usage import (
    REPLY_RESERVE,
    ContextPart,
    ContextUse,
    Role,
    context_parts,
    context_use,
)

BYTES_PER_TOKEN = 4.0
"""Of UTF-8, as most tokenizers average; replaced by measured values."""
OVERHEAD = 5
"""Approximate tokens that a template puts around a message."""
TEMPLATE_TEXT = "what the model's template adds to the messages"
MEASURED_FROM = 400
"""Bytes that must have been counted before their ratio is trusted."""

_Key = tuple[str, str, str]


class TokenCountCache:
    """Token counts by model and message, independent of chat and branch."""

    def __init__(self) -> None:
        self._known: dict[_Key, int] = {}
        self._measured: dict[str, tuple[int, int]] = {}
        self._rest: dict[str, int] = {}

    def note(
        self, model: str, messages: Sequence[RequestMessage], counts: PromptTokenCounts
    ) -> None:
        """Store the daemon's counts for these messages; raises `ValueError` for a mismatch."""
        self._rest[model] = counts.rest
        for message, tokens in zip(messages, counts.messages, strict=True):
            key = _key(model, message)
            if key not in self._known and not message.get("images"):
                size, total = self._measured.get(model, (0, 0))
                text = len(key[2].encode())
                self._measured[model] = (size + text, total + max(1, tokens - OVERHEAD))
            self._known[key] = tokens

    def is_complete(self, model: str, messages: Sequence[RequestMessage]) -> bool:
        """Return whether all of these messages are counted."""
        return all(_key(model, message) in self._known for message in messages)

    def count(self, model: str, message: RequestMessage) -> tuple[int, bool]:
        """Return a message's tokens, and whether they are exact."""
        key = _key(model, message)
        known = self._known.get(key)
        if known is not None:
            return known, True
        text = key[2].partition("\0")[0]
        pictures = PICTURE * len(message.get("images", ()))
        return self.estimate(model, text) + OVERHEAD + pictures, False

    def rest(self, model: str) -> int:
        """Return the tokens of the template outside any message, 0 before they are counted."""
        return self._rest.get(model, 0)

    def estimate(self, model: str, text: str) -> int:
        """Estimate the tokens of a text, by this model's measured ratio."""
        size, tokens = self._measured.get(model, (0, 0))
        ratio = size / tokens if size >= MEASURED_FROM else BYTES_PER_TOKEN
        return round(len(text.encode()) / ratio)


def _key(model: str, message: RequestMessage) -> _Key:
    called = (call["function"] for call in message.get("tool_calls", ()))
    text = "".join(each["name"] + each["arguments"] for each in called)
    pictures = "".join(f"\0{hash(picture)}" for picture in message.get("images", ()))
    return model, message.get("role", ""), message.get("content", "") + text + pictures


Request = Sequence[RequestMessage]


class ContextCounter:
    """The parts of a chat's context; estimates until the daemon has counted them.

    The engine's own count of an answer's prompt overrides any sum.
    """

    def __init__(self) -> None:
        self._ledger = TokenCountCache()
        self._engine_count = ("", 0, 0)  # of which answer and request, tokens
        self._asking = False
        self.model = ""
        self.request: list[RequestMessage] = []
        self.parts: list[ContextPart] = []

    def look(self, chat: Chat, model: str) -> None:
        """Update to the chat's present state, on which `use` and `parts` are based.

        A long chat takes some milliseconds, so this may be called in a thread.
        """
        entries = view_entries(chat)
        request = [entry.request_message for entry in entries]
        parts = context_parts(entries, lambda message: self._ledger.count(model, message))
        if parts and (rest := self._ledger.rest(model)):
            parts.append(ContextPart(Role.SYSTEM, rest, True, TEMPLATE_TEXT, is_message=False))
        self.model, self.request, self.parts = model, request, parts

    def set_total(self, answer: str, tokens: int) -> None:
        """Set the engine's own count after an answer, for the state of the last `look`.

        Only the first time: later, the system prompt before the answer may be another one.
        """
        if self._engine_count[0] != answer:
            self._engine_count = (answer, _fingerprint(self.model, self.request), tokens)

    def count(self, message: RequestMessage) -> tuple[int, bool]:
        """Return a message's tokens, and whether they are exact."""
        return self._ledger.count(self.model, message)

    def estimate(self, text: str) -> int:
        """Estimate the tokens of a text."""
        return self._ledger.estimate(self.model, text)

    def use(
        self, context: int, sampling: dict[str, float], running: int | None = None
    ) -> ContextUse:
        """Return the sums by role; `running` is the engine's count while an answer is generated."""
        reserve = int(sampling.get("max_tokens", REPLY_RESERVE))
        total = running
        answer = 0
        if running is not None:
            answer = max(0, running - sum(part.tokens for part in self.parts))
        elif self._engine_count[1] == _fingerprint(self.model, self.request):
            total = self._engine_count[2]
        return context_use(self.parts, context, reserve=reserve, answer=answer, total=total)

    async def ask(self, client: AsyncDaemonClient) -> bool:
        """Have the daemon count unknown messages; return whether anything was learned.

        At most one request runs at a time, none if all is known or the model is not loaded.
        """
        model, request = self.model, self.request
        if self._asking or not request or self._ledger.is_complete(model, request):
            return False
        self._asking = True
        try:
            body = {"model": model, "messages": request}
            counts = await client.count_tokens(body)
            self._ledger.note(model, request, counts)
        except (ClientError, ValueError):
            # Estimates are shown as such; the next idle moment retries.
            return False
        finally:
            self._asking = False
        return True


def _fingerprint(model: str, request: Request) -> int:
    return hash(tuple(_key(model, message) for message in request))
