"""`ingle rm`: remove a model's files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote

from ..config import load_config
from .daemon_process import ensure_daemon
from .output import format_bytes, print_json, visible
from .parser import CommandParser
from .reference import sendable_reference


def main(arguments: Sequence[str]) -> int:
    """Remove each model named; raises `CommandError` at the first that fails."""
    parser = CommandParser(
        "rm", "Remove models from this machine. A model that is loaded is unloaded first."
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a name from `ingle list`")
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    removed = [
        # Unloading waits for answers that are being written.
        client.delete(f"/ingle/v1/models/{quote(sendable_reference(model), safe='')}", timeout=None)
        for model in options.models
    ]
    if options.json:
        print_json({"removed": removed})
        return 0
    for answer in removed:
        print(visible(f"Removed {answer['removed']}, {format_bytes(answer['freed'])} freed."))
    return 0
