"""`in_thread`: starts the daemon while the chat goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from ingle.daemon.client.client_errors import DaemonUnreachable

from ..text.terminal_safe_text import clean


async def in_thread(start: Callable[[], None]) -> None:
    """Run `start` in a thread that does not keep the program from ending.

    An exception becomes a `ClientError`, with its `message` and `hint` if it has them.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            message = clean(str(getattr(error, "message", error)) or type(error).__name__)
            hint = getattr(error, "hint", None)
            done.set_exception(DaemonUnreachable(message, clean(str(hint)) if hint else None))

    def run() -> None:
        error: Exception | None = None
        try:
            start()
        except Exception as raised:
            error = raised
        # The chat may have ended in the meantime, and its loop with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, name="start-daemon", daemon=True).start()
    await done
