"""`pull`: a download that the daemon makes, as somebody follows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from .api_types import ModelEntry, PullProgress
from .client_errors import DaemonError, DaemonUnreachable
from .daemon_client import AsyncDaemonClient, error_from_body
from .sse_parser import ServerSentEvent

T = TypeVar("T")


async def pull(
    client: AsyncDaemonClient, model: str, moved: Callable[[PullProgress], None]
) -> ModelEntry:
    """Have the daemon fetch a model, and report how it goes; raises `ClientError`.

    The download belongs to the daemon: cancelling this leaves it running.
    """
    stream = client.events("/ingle/v1/pull", method="POST", body={"model": model})
    async with aclosing(stream) as events:
        async for event in events:
            if event.event == "progress":
                moved(decode_event(event, PullProgress))
            elif event.event == "done":
                return decode_event(event, ModelEntry)
            elif event.event == "error":
                raise error_from_body(event.data)
    raise DaemonUnreachable("The daemon ended the download's stream too early.")


def decode_event(event: ServerSentEvent, kind: type[T]) -> T:
    """What an event tells; raises `DaemonError` where it was not understood."""
    try:
        return msgspec.json.decode(event.data, type=kind)
    except msgspec.MsgspecError as error:
        raise DaemonError(
            f"The daemon sent a `{event.event}` event that was not understood: {error}.",
            code="bad_answer",
        ) from error
