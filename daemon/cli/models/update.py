"""`ingle update`: says which models have changed where they came from, and brings the new ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import (
    confirmed,
    format_bytes,
    print_json,
    print_status,
    print_table,
    print_text,
)
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, sendable_reference
from ..progress_report import ProgressReport
from .pull import follow_pull

if TYPE_CHECKING:
    from ...client.model_types import UpstreamChange
    from ...client.sync_client import DaemonClient


def main(arguments: Sequence[str]) -> int:
    """Print what changed, and update or roll back if so wanted; raises `CommandError`."""
    parser = CommandParser(
        "update",
        "Check whether there are newer files of models, and download them. Models of the\n"
        "hub are looked up there, which no other command does, others in the catalog of\n"
        "this version of ingle. In a terminal it asks before a download, elsewhere it\n"
        "downloads only with --yes. The old version stays in use until the\n"
        "new one is whole, and is kept until the next update; `ingle show` lists it.",
        examples="  ingle update\n  ingle update --yes hf.co/owner/repository:Q4_K_M\n"
        "  ingle update --rollback smollm2",
    )
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="the models (default: all of ingle's own)"
    )
    parser.add_flag("-y", "--yes", help="download without asking")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--rollback", action="store_true", help="use the kept version again")
    other.add_argument("--discard", action="store_true", help="remove the kept version")
    options = parser.parse_args(arguments)
    if (options.rollback or options.discard) and not options.models:
        parser.error("name a MODEL to roll back or to discard a version of")
    client = ensure_daemon(load_config(os.environ))
    if options.models:
        names = [find_entry(client, sendable_reference(each)).name for each in options.models]
    else:
        listed = client.models().models
        names = [each.name for each in listed if each.installed and not each.place]
    if options.rollback:
        return _roll_back(client, names, as_json=options.json)
    if options.discard:
        return _discard(client, names, as_json=options.json)
    found = _ask_upstream(client, names)
    if not options.json:
        _print_changes(found)
    changed = [each for each in found if each.state == "changed"]
    updated: list[str] = []
    if changed and (options.yes or (not options.json and _agreed(changed))):
        for each in changed:
            path = "/ingle/v1/update/apply"
            updated.append(follow_pull(client, each.name, path).name)
            print_status(f"{each.name} is updated; the version before is kept.")
    if options.json:
        print_json({"updates": found, "updated": updated})
    return 0


def _ask_upstream(client: DaemonClient, names: Sequence[str]) -> list[UpstreamChange]:
    from ...client.model_types import UpstreamChange

    found: list[UpstreamChange] = []
    with ProgressReport() as report:
        for name in names:
            report.show_step(f"Asking about {name}")
            body = {"model": name}
            found.append(client.post("/ingle/v1/update", body, UpstreamChange, timeout=120.0))
    return found


def _print_changes(found: Sequence[UpstreamChange]) -> None:
    if not found:
        print("No model is installed.")
        return
    print_table(("NAME", "UPSTREAM"), [[each.name, _state(each)] for each in found])


def _state(change: UpstreamChange) -> str:
    if change.state == "current":
        return "as it is here"
    if change.state != "changed":
        return f"unknown: {change.reason}"
    new = "unknown size" if change.new_size is None else format_bytes(change.new_size)
    return f"CHANGED: {format_bytes(change.size)} here, {new} there, {_download(change)}"


def _download(change: UpstreamChange) -> str:
    if change.download == 0:
        return "kept here"
    return f"{format_bytes(change.download)} to download" if change.download else "to download"


def _agreed(changed: Sequence[UpstreamChange]) -> bool:
    """Ask on a terminal; elsewhere say how to go on."""
    names = [each.name for each in changed]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_text(f"\n`ingle update --yes {' '.join(names)}` downloads what changed.")
        return False
    size = format_bytes(sum(each.download or 0 for each in changed))
    return confirmed(f"Update {' and '.join(names)} ({size})?")


def _roll_back(client: DaemonClient, names: Sequence[str], *, as_json: bool) -> int:
    from ...client.model_types import ModelEntry

    path = "/ingle/v1/update/rollback"
    entries = [client.post(path, {"model": name}, ModelEntry, timeout=None) for name in names]
    if as_json:
        print_json({"rolled_back": entries})
        return 0
    for entry in entries:
        print_text(
            f"{entry.name} is the kept version again ({format_bytes(entry.size)}). "
            "The other one is kept now."
        )
    return 0


def _discard(client: DaemonClient, names: Sequence[str], *, as_json: bool) -> int:
    from ...client.model_types import Removed

    path = "/ingle/v1/update/discard"
    done = [client.post(path, {"model": name}, Removed, timeout=None) for name in names]
    if as_json:
        print_json({"discarded": done})
        return 0
    for each in done:
        freed = f"{format_bytes(each.freed)} freed" if each.freed else "which frees nothing"
        print_text(f"Discarded the kept version of {each.removed}, {freed}.")
    return 0
