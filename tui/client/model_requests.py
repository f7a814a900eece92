"""What the daemon is asked about the memory of a model."""

from __future__ import annotations

import msgspec

from .api_types import LoadedModel
from .daemon_client import AsyncDaemonClient

LOAD_PATIENCE = 600.0
"""Seconds that a model may take to be loaded with another context."""
LEAST_CONTEXT, MOST_CONTEXT = 256, 2**24


class _Unloaded(msgspec.Struct, frozen=True):
    unloaded: list[str] = []


async def unload(client: AsyncDaemonClient, name: str) -> bool:
    """Give a model's memory back; whether it had any. Raises `ClientError`."""
    done = await client.request(_Unloaded, "POST", "/ingle/v1/unload", {"model": name})
    return bool(done.unloaded)


async def load_with(client: AsyncDaemonClient, name: str, context: int) -> LoadedModel:
    """Load a model with a context of so many tokens, or fewer; raises `ClientError`."""
    body = {"model": name, "context": context}
    return await client.request(LoadedModel, "POST", "/ingle/v1/load", body, patience=LOAD_PATIENCE)


def parse_context(text: str) -> int | None:
    """A number of tokens as people write it, None where it is none that a context can have."""
    digits = text.replace(" ", "").replace(",", "").replace("_", "")
    if not digits.isdecimal() or not LEAST_CONTEXT <= int(digits) <= MOST_CONTEXT:
        return None
    return int(digits)
