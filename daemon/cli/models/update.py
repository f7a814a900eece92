"""`ingle update`: says which models have changed where they came from."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...settings.config import load_config
from ...terminal.terminal_output import print_json, print_table, print_text
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, sendable_reference
from ..progress_report import ProgressReport

_STATES = {"current": "as it is here", "changed": "CHANGED"}


def main(arguments: Sequence[str]) -> int:
    """Print what changed; raises `CommandError`."""
    parser = CommandParser(
        "update",
        "Say which models have another file now where they came from. Only this command\n"
        "asks: the hub about models of the hub, and the catalog of this version of ingle\n"
        "about others. Nothing is downloaded.",
        examples="  ingle update\n  ingle update hf.co/owner/repository:Q4_K_M",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="(default: all of ingle's own)")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.model_types import UpstreamChange

    if options.models:
        names = [find_entry(client, sendable_reference(each)).name for each in options.models]
    else:
        listed = client.models().models
        names = [each.name for each in listed if each.installed and not each.place]
    found: list[UpstreamChange] = []
    with ProgressReport() as report:
        for name in names:
            report.show_step(f"Asking about {name}")
            body = {"model": name}
            found.append(client.post("/ingle/v1/update", body, UpstreamChange, timeout=120.0))
    if options.json:
        print_json({"updates": found})
        return 0
    if not found:
        print("No model is installed.")
        return 0
    print_table(
        ("NAME", "UPSTREAM"),
        [[each.name, _STATES.get(each.state) or f"unknown: {each.reason}"] for each in found],
    )
    changed = [each.name for each in found if each.state == "changed"]
    if changed:
        print_text(
            f"\n`ingle rm {changed[0]}`, then `ingle pull {changed[0]}`, fetches the new file."
        )
    return 0
