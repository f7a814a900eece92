"""`ContextCounter`: what the next prompt is sent with, counted by the daemon when it is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..chats.chat import Chat
from ..chats.context_view import view_entries
from ..client.api_types import TokenCounts
from ..client.client_errors import ClientError
from ..client.daemon_client import AsyncDaemonClient
from .context_usage import REPLY_RESERVE, ContextPart, ContextUse, context_parts, context_use
from .token_count_cache import TokenCountCache

Request = Sequence[dict[str, str]]
RESERVE_PARTS = 8


class ContextCounter:
    """The parts of a chat's context; until the daemon has counted them they are estimates.

    What the engine itself told of an answer's prompt counts more than any sum.
    """

    def __init__(self) -> None:
        self._ledger = TokenCountCache()
        self._told: tuple[int, int] | None = None
        self._asking = False
        self.model = ""
        self.request: list[dict[str, str]] = []
        self.parts: list[ContextPart] = []

    def look(self, chat: Chat, model: str) -> None:
        """Take the chat as it is now; `use` and `parts` are of this moment.

        A long chat takes some milliseconds, so that this may be called in a thread.
        """
        entries = view_entries(chat)
        request = [{"role": entry.role, "content": entry.content} for entry in entries]
        parts = context_parts(entries, lambda message: self._ledger.count(model, message))
        self.model, self.request, self.parts = model, request, parts

    def take_total(self, tokens: int) -> None:
        """The engine's own count of what `look` saw."""
        self._told = (_fingerprint(self.model, self.request), tokens)

    def count(self, message: Mapping[str, str]) -> tuple[int, bool]:
        """A message's tokens, and whether they are exact."""
        return self._ledger.count(self.model, message)

    def estimate(self, text: str) -> int:
        """About how many tokens a text takes."""
        return self._ledger.estimate(self.model, text)

    def use(
        self, context: int, sampling: dict[str, float], running: int | None = None
    ) -> ContextUse:
        """The sums by role; `running` is the engine's count while an answer is written."""
        reserve = min(int(sampling.get("max_tokens", REPLY_RESERVE)), context // RESERVE_PARTS)
        total = running
        answer = 0
        if running is not None:
            answer = max(0, running - sum(part.tokens for part in self.parts))
        elif self._told is not None and self._told[0] == _fingerprint(self.model, self.request):
            total = self._told[1]
        return context_use(self.parts, context, reserve=reserve, answer=answer, total=total)

    async def ask(self, client: AsyncDaemonClient) -> bool:
        """Have the daemon count what is not known; whether anything was learned.

        Never more than one request at a time, and none where all is known. A model that is not
        loaded is left alone.
        """
        model, request = self.model, self.request
        if self._asking or not request or self._ledger.is_complete(model, request):
            return False
        self._asking = True
        try:
            body = {"model": model, "messages": request}
            counts = await client.request(TokenCounts, "POST", "/ingle/v1/tokens", body)
            self._ledger.note(model, request, counts)
        except (ClientError, ValueError):
            # An estimate is shown as such; the next idle moment tries again.
            return False
        finally:
            self._asking = False
        return True


def _fingerprint(model: str, request: Request) -> int:
    return hash((model, *((m.get("role"), m.get("content")) for m in request)))
