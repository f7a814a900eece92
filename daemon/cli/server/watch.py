"""`ingle watch`: shows what clients send to models on this machine, as it is answered."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_seconds,
    print_status,
    print_text,
    strip_control_characters,
)
from ..command_errors import CommandError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from ...client.sync_client import DaemonClient
    from ...client.watch_types import WatchedRequest

EXAMPLES = """\
  ingle watch                      a few lines for each request, as it ends
  ingle watch --prompt             with the prompt, as the template renders it
  ingle watch --save agent.jsonl   also write requests and prompts to a file
"""
_COLUMNS = 80
_INDENT = "         "


def main(arguments: Sequence[str]) -> int:
    """Print requests until interrupted; raises `CommandError`."""
    parser = CommandParser(
        "watch",
        "Show the requests of all clients as they end: tokens computed and cached, where\n"
        "a prompt left the client's earlier one, times, calls of tools, errors. Private\n"
        "requests are not shown. Nothing is kept but in memory, while this runs.",
        examples=EXAMPLES,
    )
    parser.add_flag("--prompt", help="print the prompts, too")
    parser.add_argument("--save", metavar="FILE", type=Path, help="append all to a JSON Lines file")
    options = parser.parse_args(arguments)
    from ...client.sync_client import read_event
    from ...client.watch_types import WatchedRequest as Watched
    from ..daemon_launcher import ensure_daemon

    daemon = ensure_daemon(load_config(os.environ))
    if not options.json:
        print_status("Watching; Ctrl-C ends it.")
    for event in daemon.events("GET", "/ingle/v1/watch"):
        if event.event == "request":
            _show(daemon, read_event(event, Watched), options)
    return 0


def _show(daemon: DaemonClient, request: WatchedRequest, options: Namespace) -> None:
    prompt = _prompt(daemon, request.id) if options.prompt or options.save else ""
    if options.save:
        _save(options.save, request, prompt)
    if options.json:
        sys.stdout.write(_line(request, prompt if options.prompt else ""))
    else:
        for line in lines(request):
            print_text(line)
        if options.prompt:
            print_text(strip_control_characters(prompt))
    sys.stdout.flush()


def _prompt(daemon: DaemonClient, request: str) -> str:
    from ...client.client_errors import DaemonError
    from ...client.watch_types import WatchedPrompt

    try:
        return daemon.get(f"/ingle/v1/watch/{request}", WatchedPrompt).text
    except DaemonError:  # it was not rendered, or is too old
        return ""


def _line(request: WatchedRequest, prompt: str) -> str:
    import msgspec

    value = msgspec.structs.asdict(request) | ({"prompt": prompt} if prompt else {})
    return msgspec.json.encode(value).decode() + "\n"


def _save(path: Path, request: WatchedRequest, prompt: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_line(request, prompt))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error


def lines(request: WatchedRequest) -> list[str]:
    """Return what is shown of a request, in lines for 80 columns."""
    facts = request.facts(_number, format_seconds)
    if request.error:
        facts.append(f"error: {request.error}")
    if request.prefix is not None:
        facts += request.prefix.facts(_number)
    plain = map(strip_control_characters, facts)
    inner = [wrap(line, _COLUMNS - len(_INDENT), subsequent_indent="  ") for line in plain]
    heading = strip_control_characters(request.heading)[:_COLUMNS]
    return [heading, *(_INDENT + part for parts in inner for part in parts)]


def _number(count: int) -> str:
    return f"{count:,}"
