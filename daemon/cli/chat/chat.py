"""`ingle` and `ingle chat`: opens the terminal chat. Imports little, to show a frame in 30 ms."""

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
  ingle -p "Make the tests pass" --tools edit
  git diff | ingle -p "Explain these changes\""""


def main(arguments: Sequence[str]) -> int:
    """Open the chat; with a prompt option, answer that and exit."""
    if not arguments:
        return open_chat(None)
    from ..command_parser import CommandParser
    from ..model_reference import sendable_reference

    parser = CommandParser(
        "chat",
        "Open the chat in this terminal. If input or output is a pipe, and with\n"
        "--plain, it reads one prompt per line, and writes lines.",
        examples=EXAMPLES,
        json=False,
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="the model to chat with (default: the configured one)",
    )
    parser.add_flag(
        "--plain", help="lines of text, for screen readers; also with ACCESSIBLE=1 or TERM=dumb"
    )
    parser.add_flag("--temp", help="a chat that is never written to disk")
    parser.add_argument(
        "-p", "--prompt", metavar="PROMPT", help="answer this prompt, as `ingle run` does, and exit"
    )
    parser.add_argument(
        "--image",
        metavar="FILE",
        action="append",
        default=[],
        help="with -p: a picture it is about",
    )
    parser.add_argument(
        "--tools",
        nargs="?",
        const="ask",
        choices=("ask", "read", "edit", "run", "all"),
        metavar="LEVEL",
        help="with -p: let the model use tools in this folder; what LEVEL (read, edit, run, all) "
        "covers is not asked about",
    )
    options = parser.parse_args(arguments)
    if options.prompt is not None:
        from .run import ask

        if options.image and options.tools is not None:
            parser.error("--image does not go together with --tools yet")
        return ask(options.model, options.prompt, options.tools, options.image)
    if options.image:
        parser.error("--image belongs to -p; in the chat write @FILE")
    if options.tools is not None:
        parser.error("--tools belongs to -p; in the chat /tools on switches them on")
    model = None if options.model is None else sendable_reference(options.model)
    return open_chat(model, temporary=options.temp, plain=options.plain)


def open_chat(model: str | None, *, temporary: bool = False, plain: bool = False) -> int:
    """Run the chat until the user quits: full screen, or line by line if the terminal does not
    allow it.
    """
    paths = find_paths(os.environ)
    paths.check_private()
    socket = find_socket(os.environ)
    from ingle.tui.settings.chat_folders import ChatFolders

    def start_daemon() -> None:
        from ...settings.config import load_config
        from ..daemon_launcher import ensure_daemon

        # The chat itself reports that the daemon is starting.
        ensure_daemon(load_config(os.environ), say=lambda text: None)

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
    """Whether the chat should print lines: for a screen reader, a simple terminal, or a pipe."""
    if environ.get("ACCESSIBLE", "0") not in ("", "0") or environ.get("TERM") == "dumb":
        return True
    return not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def find_socket(environ: Mapping[str, str]) -> Path:
    """Return `load_config(environ).socket`, without loading the configuration if it must be the
    default.

    Raises `ConfigError`.
    """
    paths = find_paths(environ)
    is_set = any(name.startswith("INGLE_") and name != "INGLE_HOME" for name in environ)
    if not is_set and not paths.config_file.exists():
        return paths.socket
    # Loading takes a quarter of the time budget of the first frame.
    from ...settings.config import load_config

    return load_config(environ).socket
