"""`run_chat`: the chat from the first frame to the exit status. Imports nothing slow."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from .settings.preferences import load_preferences
from .settings.theme_choice import choose_theme
from .terminal.exit_signals import exit_on_signals

SETTLED = 2.0
"""Seconds after the start by which all modules of a chat have been imported."""

if TYPE_CHECKING:
    from .app.chat_app import ChatApp
    from .app.first_frame import FirstFrame
    from .settings.chat_folders import ChatFolders


def run_chat(
    *,
    socket_path: str | None,
    address: tuple[str, int] | None = None,
    folders: ChatFolders | None = None,
    model: str | None = None,
    temporary: bool = False,
    start_daemon: Callable[[], None] | None = None,
) -> int:
    """Run the chat in this terminal until the user leaves; returns the exit status.

    `start_daemon` blocks until a daemon runs, or raises an exception with `message` and `hint`. It
    is called in a thread, perhaps more than once, and only while nothing answers at the socket.
    Without `folders` nothing is kept.
    """
    reason = unusable_terminal()
    if reason is not None:
        print(f"Error: {reason}", file=sys.stderr)
        print("`ingle run MODEL PROMPT` answers without a chat screen.", file=sys.stderr)
        return 2
    preferences = load_preferences(None if folders is None else folders.config)
    theme = choose_theme(preferences.theme, os.environ)
    _set_up_textual(motion=preferences.motion)
    exit_on_signals()  # until the app has its own way
    app: ChatApp | None = None
    try:
        with _first_frame(theme, full=preferences.gauges) as first_frame:
            # Collections while modules are imported would find next to nothing.
            gc.disable()
            from .app.chat_app import ChatApp
            from .app.chat_screen import ChatScreen
            from .session.chat_client import chat_client

            chat = ChatScreen(
                chat_client(socket_path, address),
                folders=folders,
                model=model,
                temporary=temporary,
                preferences=preferences,
                start_daemon=start_daemon,
            )
            app = ChatApp(chat, theme=theme, on_live=partial(_live, first_frame))
            app.run()
            return app.return_code or 0
    except KeyboardInterrupt:
        return 130
    finally:
        gc.enable()
        if app is not None:
            app.save()


def _live(first_frame: FirstFrame | None) -> None:
    """End the first frame, since the composer accepts keys; later freeze long-lived objects."""
    import asyncio

    gc.enable()
    if first_frame is not None:
        first_frame.hand_over()
    # Garbage collections then skip these objects, which would take 20 ms between two keys.
    asyncio.get_running_loop().call_later(SETTLED, gc.freeze)


def _set_up_textual(*, motion: bool) -> None:
    """Configure Textual, which reads the environment when it is imported."""
    # A shell that exports its size does not know of the next one.
    for stale in ("COLUMNS", "LINES"):
        os.environ.pop(stale, None)
    if not motion:
        os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
        os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
    if "NO_COLOR" in os.environ:
        # Textual reads its theme when it is imported, and only this one draws without colours.
        os.environ.setdefault("TEXTUAL_THEME", "ansi-dark")
    if "SSH_CONNECTION" not in os.environ:
        # Milliseconds that Textual waits after an escape for the rest of a sequence. Terminals on
        # this machine send it in one piece.
        os.environ.setdefault("ESCDELAY", "20")


def unusable_terminal() -> str | None:
    """The reason why the chat cannot run in this terminal, or None."""
    if os.environ.get("TERM") == "dumb":
        return "The chat needs a terminal that can move its cursor, and TERM is `dumb`."
    streams = {"input": sys.stdin, "output": sys.stdout, "error output": sys.stderr}
    for name, stream in streams.items():
        if not stream.isatty():
            return f"The chat needs a terminal, and the {name} is not one."
    return None


def _first_frame(theme: str, *, full: bool) -> AbstractContextManager[FirstFrame | None]:
    if sys.platform == "win32":
        return nullcontext()
    from .app.first_frame import FirstFrame

    return FirstFrame(theme, full=full)
