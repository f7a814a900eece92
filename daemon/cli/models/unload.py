"""`ingle unload`: ends a model's process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Timer

from ...settings.config import load_config
from ...terminal.terminal_output import print_json, print_status, print_text
from ..command_parser import CommandParser
from ..daemon_launcher import running_daemon
from ..model_reference import sendable_reference

PATIENCE = 2.0
"""Seconds without an answer before the wait is announced."""


def main(arguments: Sequence[str]) -> int:
    """Unload the named model, or all; raises `CommandError`."""
    parser = CommandParser("unload", "Let running answers finish, then free the memory of a model.")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a loaded model (default: all)")
    options = parser.parse_args(arguments)
    client = running_daemon(load_config(os.environ))
    unloaded: list[str] = []
    if client is not None:
        from ...client.model_types import Unloaded

        body = {"model": sendable_reference(options.model)} if options.model else {}
        # It waits for running answers, however long they take.
        notice = Timer(PATIENCE, print_status, ["Waiting for running answers to finish."])
        notice.daemon = True
        notice.start()
        unloaded = client.post("/ingle/v1/unload", body, Unloaded, timeout=None).unloaded
        notice.cancel()
    if options.json:
        print_json({"unloaded": unloaded})
    elif client is None:
        print("The daemon is not running.")
    else:
        print_text(f"Unloaded {', '.join(unloaded)}." if unloaded else "No model was loaded.")
    return 0
