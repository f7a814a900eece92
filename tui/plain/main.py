"""`run_plain`: the chat as lines, from the first to the exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..folders import Folders


def run_plain(
    *,
    socket_path: str | None,
    address: tuple[str, int] | None = None,
    folders: Folders | None = None,
    model: str | None = None,
    temporary: bool = False,
    start_daemon: Callable[[], None] | None = None,
) -> int:
    """Chat in lines until the input ends; the arguments are those of `run_chat`."""
    from ..client import DaemonClient
    from .line_reader import LineReader
    from .output import PlainOutput
    from .session import PlainSession

    signal.signal(signal.SIGTERM, _leave)
    output = PlainOutput()
    store = None
    if folders is not None:
        from ..history.store import open_history

        store = open_history(folders.chats, output.error)
        if store.database.is_locked:
            from .unlock import unlock

            unlock(store)
    session = PlainSession(
        DaemonClient(socket_path, address),
        output,
        LineReader(output),
        model=model,
        temporary=temporary,
        store=store,
        start_daemon=start_daemon,
    )
    try:
        return session.run()
    finally:
        if store is not None:
            store.close()


def _leave(_signal: int, _frame: object) -> None:
    # An exception, so that the history is closed on the way out.
    sys.exit(128 + signal.SIGTERM)
