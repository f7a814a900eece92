"""`run_plain`: runs the plain chat and returns its exit status."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..terminal.exit_signals import exit_on_signals

if TYPE_CHECKING:
    from ..settings.chat_folders import ChatFolders
    from .plain_session import PlainSession


def run_plain(
    *,
    socket_path: str | None,
    address: tuple[str, int] | None = None,
    folders: ChatFolders | None = None,
    model: str | None = None,
    temporary: bool = False,
    start_daemon: Callable[[], None] | None = None,
) -> int:
    """Chat in lines until the input ends; the arguments are those of `run_chat`."""
    from ..session.chat_client import chat_client
    from .line_reader import LineReader
    from .plain_output import PlainOutput
    from .plain_session import PlainSession

    exit_on_signals()
    # Bytes that are no text, and letters that have no bytes here, become marks.
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    output = PlainOutput()
    store = None
    if folders is not None:
        from ..history.history_store import open_history

        store = open_history(folders.chats, output.error)
        if store.database.is_locked:
            from .passphrase_prompt import unlock

            unlock(store)
    session = PlainSession(
        chat_client(socket_path, address),
        output,
        LineReader(output),
        folders=folders,
        model=model,
        temporary=temporary,
        store=store,
        start_daemon=start_daemon,
    )
    if not temporary:
        _begin(session)
    status = 1
    try:
        status = session.run()
    finally:
        if store is not None and not store.close():
            output.error("The end of the last chat could not be written.")
            status = 1
    return status


def _begin(session: PlainSession) -> None:
    """Give the first chat the persona of new chats."""
    from ..commands.chat_commands import begin
    from ..commands.command_runner import PROBLEMS

    try:
        begin(session)
    except PROBLEMS as problem:
        session.output.error(problem.message, problem.hint)
