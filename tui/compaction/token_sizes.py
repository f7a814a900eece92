"""Counts the tokens of a conversation with the daemon, or estimates them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ingle.daemon.client.async_client import LOAD_PATIENCE, AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonError

from ..chats.context_view import ViewEntry
from ..composing.token_estimate import PICTURE

CHARACTERS_A_TOKEN = 3.6
"""Assumed without a count."""
COUNT_PATIENCE = 30.0
"""Seconds that a count may take."""
_A_MESSAGE = 5
"""Tokens that a template writes around a message."""


@dataclass(frozen=True, slots=True)
class TokenSizes:
    """The tokens of each entry of a view; `exact` unless estimated."""

    entries: tuple[int, ...]
    total: int
    context: int = 0
    exact: bool = True
    characters: int = 0

    def of_text(self, text: str) -> int:
        """Estimate the tokens of a text, by the rate of these."""
        rate = self.total / self.characters if self.characters else 1 / CHARACTERS_A_TOKEN
        return math.ceil(len(text) * rate)


async def measure(
    client: AsyncDaemonClient,
    model: str | None,
    entries: Sequence[ViewEntry],
    *,
    load: bool = False,
) -> TokenSizes:
    """Have the daemon count, or estimate if it cannot; raises `DaemonUnreachable`.

    With `load` a model that is not loaded is loaded first, so that its context is known.
    """
    characters = sum(len(entry.content) for entry in entries)
    body: dict[str, object] = {
        "model": model,
        "messages": [entry.request_message for entry in entries],
        "load": load,
    }
    patience = LOAD_PATIENCE if load else COUNT_PATIENCE
    try:
        counts = await client.count_tokens(body, patience=patience)
    except DaemonError:  # the model is not loaded, or the daemon is older than this request
        sizes = [
            math.ceil(len(e.content) / CHARACTERS_A_TOKEN)
            + _A_MESSAGE
            + PICTURE * len(e.request_message.get("images", ()))
            for e in entries
        ]
        return TokenSizes(tuple(sizes), sum(sizes), 0, False, characters)
    return TokenSizes(tuple(counts.messages), counts.total, counts.context, True, characters)
