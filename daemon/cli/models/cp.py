"""`ingle cp`: gives a model a second name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...client.client_errors import DaemonError
from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, print_text
from ..command_errors import CommandError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, sendable_reference
from .pull import pull

if TYPE_CHECKING:
    from ...client.model_types import ModelEntry
    from ...client.sync_client import DaemonClient


def main(arguments: Sequence[str]) -> int:
    """Copy one model; raises `CommandError`."""
    parser = CommandParser(
        "cp",
        "Give a model a second name. The weights are linked, so the copy takes no space\n"
        "on the same disk; either can be removed without the other.",
        examples="  ingle cp smollm2 mine\n  ingle cp hf.co/owner/repository:Q4_K_M work:small",
    )
    parser.add_argument("model", metavar="NAME", help="a name from `ingle list`")
    parser.add_argument("new", metavar="NEW", help="the second name")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    source = installed_entry(client, sendable_reference(options.model))
    refuse_taken(client, options.new)
    # A file whose digest is unknown is read first.
    body = {"source": source.name, "destination": options.new}
    client.post("/api/copy", body, dict, timeout=None)
    entry = find_entry(client, options.new)
    if options.json:
        print_json(entry)
    else:
        print_text(f"{entry.name} ({format_bytes(entry.size)}) is a copy of {source.name}.")
    return 0


def installed_entry(client: DaemonClient, reference: str) -> ModelEntry:
    """Return a model, pulled first if it is only in the catalog; raises `ClientError`."""
    entry = find_entry(client, reference)
    return entry if entry.installed else pull(client, entry.name)


def refuse_taken(client: DaemonClient, name: str) -> None:
    """Raise `CommandError` if a model has the name."""
    wanted = name if ":" in name else f"{name}:latest"
    try:
        entry = find_entry(client, wanted)
    except DaemonError as error:
        if error.status == 404:
            return
        raise
    if entry.installed and entry.name.lower() == wanted.lower():
        raise CommandError(
            f"There is a model called {entry.name} already.",
            f"Choose another name, or remove it: `ingle rm {entry.name}`.",
        )
