"""`ingle` and `ingle chat`: the terminal chat. Imports little, since a frame is due in 30 ms."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...settings.paths import find_paths

EXAMPLES = """\
  ingle chat smollm2:135m
  ingle --plain
  ingle -p "Why is the sky blue?"
  git diff | ingle -p "Explain these changes\""""


def main(arguments: Sequence[str]) -> int:
    """Open the chat as the command line says; with a prompt there, answer that and end."""
    if not arguments:
        return open_chat(None)
    from ..command_parser import CommandParser
    from ..model_reference import sendable_reference

    parser = CommandParser(
        "chat",
        "Open the chat in this terminal. Where input or output is a pipe, and with\n"
        "--plain, it reads a prompt a line, and writes lines.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="the model to talk to (the default one)"
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="lines of text, for screen readers; also with ACCESSIBLE=1 or TERM=dumb",
    )
    parser.add_argument("--temp", action="store_true", help="a chat that is never written down")
    parser.add_argument(
        "-p", "--prompt", metavar="PROMPT", help="answer this, as `ingle run` does, and end"
    )
    options = parser.parse_args(arguments)
    if options.prompt is not None:
        from .run import ask

        return ask(options.model, options.prompt)
    model = None if options.model is None else sendable_reference(options.model)
    return open_chat(model, temporary=options.temp, plain=options.plain)


def open_chat(model: str | None, *, temporary: bool = False, plain: bool = False) -> int:
    """Run the chat until the person leaves: on a screen, or in lines where that cannot be."""
    paths = find_paths(os.environ)
    paths.check_private()
    socket = find_socket(os.environ)
    from ingle.tui.settings.chat_folders import ChatFolders

    def start_daemon() -> None:
        from ...settings.config import load_config
        from ..daemon_launcher import ensure_daemon

        # The chat says by itself that the daemon starts.
        ensure_daemon(load_config(os.environ), say=_keep_quiet)

    if plain or wants_plain(os.environ):
        from ingle.tui.plain.plain_main import run_plain as run
    else:
        from ingle.tui.main import run_chat as run
    return run(
        socket_path=str(socket),
        folders=ChatFolders(paths.chats, paths.config),
        model=model,
        temporary=temporary,
        start_daemon=start_daemon,
    )


def wants_plain(environ: Mapping[str, str]) -> bool:
    """Whether a screen of cells is of no use here: a screen reader, a simple terminal, a pipe."""
    if environ.get("ACCESSIBLE", "0") not in ("", "0") or environ.get("TERM") == "dumb":
        return True
    return not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def find_socket(environ: Mapping[str, str]) -> Path:
    """`load_config(environ).socket`, without loading what can only find the default.

    Raises `ConfigError`.
    """
    paths = find_paths(environ)
    is_set = any(name.startswith("INGLE_") and name != "INGLE_HOME" for name in environ)
    if not is_set and not paths.config_file.exists():
        return paths.socket
    # This takes a quarter of the time that the first frame has.
    from ...settings.config import load_config

    return load_config(environ).socket


def _keep_quiet(text: str) -> None:
    """A line that the chat has no place for."""
