"""`ingle` and `ingle chat`: the terminal chat. Imports little, since a frame is due in 30 ms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..paths import find_paths


def main(arguments: Sequence[str]) -> int:
    """Open the chat, with the model the command line names."""
    model = None
    if arguments:
        from .parser import CommandParser

        parser = CommandParser(
            "chat",
            "Open the chat in this terminal.",
            examples="  ingle chat\n  ingle chat smollm2:135m",
        )
        parser.add_argument(
            "model", nargs="?", metavar="MODEL", help="the model to talk to (the default one)"
        )
        model = parser.parse_args(arguments).model
        if model is not None:
            from .reference import sendable_reference

            model = sendable_reference(model)
    return open_chat(model)


def open_chat(model: str | None) -> int:
    """Run the chat until the person leaves; needs a terminal."""
    paths = find_paths(os.environ)
    paths.check_private()
    socket = find_socket(os.environ)
    from ingle.tui.folders import Folders
    from ingle.tui.main import run_chat

    def start_daemon() -> None:
        from ..config import load_config
        from .daemon_process import ensure_daemon

        # The screen belongs to the chat by now, which shows by itself that the daemon starts.
        ensure_daemon(load_config(os.environ), say=_keep_quiet)

    return run_chat(
        socket_path=str(socket),
        folders=Folders(paths.chats, paths.config),
        model=model,
        start_daemon=start_daemon,
    )


def find_socket(environ: Mapping[str, str]) -> Path:
    """`load_config(environ).socket`, without loading what can only find the default.

    Raises `ConfigError`.
    """
    paths = find_paths(environ)
    is_set = any(name.startswith("INGLE_") and name != "INGLE_HOME" for name in environ)
    if not is_set and not paths.config_file.exists():
        return paths.socket
    # This takes a quarter of the time that the first frame has.
    from ..config import load_config

    return load_config(environ).socket


def _keep_quiet(text: str) -> None:
    """A line that the chat has no place for."""
