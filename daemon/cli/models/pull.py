"""`ingle pull`: downloads models."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from ...client.api_types import ModelEntry, PullProgress
from ...client.client_errors import ClientError, ConnectionLost
from ...client.sync_client import DaemonClient, JsonObject
from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_fields,
    print_json,
    print_status,
    table_columns,
)
from ...terminal.unsafe_characters import escaped_in_json
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference
from ..progress_report import ProgressReport
from .fit_summary import ask_fit, fit_fields, remote_facts


def main(arguments: Sequence[str]) -> int:
    """Pull each named model; raises `CommandError` at the first that fails."""
    parser = CommandParser(
        "pull",
        "Download models. The daemon does the work: a pull that was stopped or\n"
        "interrupted continues where it was.",
        examples="  ingle pull smollm2\n  ingle pull hf.co/owner/repository:Q4_K_M",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a catalog name or a reference")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only show what would be downloaded, and whether it would run here",
    )
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    if options.dry_run:
        _foretell(client, options.models, as_json=options.json)
        return 0
    for model in options.models:
        pull(client, sendable_reference(model), on_event=_print_line if options.json else None)
    return 0


def pull(
    client: DaemonClient,
    model: str,
    on_event: Callable[[str, JsonObject], None] | None = None,
) -> ModelEntry:
    """Download `model`, with progress on standard error unless `on_event` takes the events.

    Raises `CommandError`; Ctrl-C stops the download, whose partial file is kept.
    """
    report = ProgressReport()
    try:
        for name, data in client.events("POST", "/ingle/v1/pull", {"model": model}):
            if on_event is not None:
                on_event(name, data)
            elif name == "progress":
                report.show(cast("PullProgress", data))
            if name == "done":
                entry = cast("ModelEntry", data)
                report.close()
                if on_event is None:
                    print_status(_ready(entry))
                return entry
    except KeyboardInterrupt:
        report.close()
        # If the daemon is gone, there is nothing left to cancel.
        with suppress(ClientError):
            client.post("/ingle/v1/pull/cancel", {"model": model}, timeout=5.0)
        print_status(f"Stopped. `ingle pull {model}` continues where it was.")
        raise
    finally:
        report.close()
    raise ConnectionLost(
        f"The daemon ended the download of '{model}' without a reason.",
        f"`ingle pull {model}` continues where it was.",
    )


def _foretell(client: DaemonClient, models: Sequence[str], *, as_json: bool) -> None:
    """Print what pulling would download; reads no more than the headers of the files."""
    reports = [ask_fit(client, sendable_reference(model)) for model in models]
    if as_json:
        print_json(reports if len(reports) > 1 else reports[0])
        return
    for number, report in enumerate(reports):
        if number:
            print()
        facts = fit_fields(report) if report["installed"] else remote_facts(report)
        if report["installed"]:
            facts = [("name", report["name"]), ("state", "here already"), *facts]
        print_fields(facts, table_columns())


def _ready(entry: ModelEntry) -> str:
    size = format_bytes(entry["size"])
    if place := entry.get("place"):
        where = f"It is used in place, and nothing was downloaded: {entry['path']}"
        return f"{entry['name']} is already in {place} ({size}). {where}"
    return f"{entry['name']} is ready ({size})."


def _print_line(name: str, data: JsonObject) -> None:
    """Print one JSON object per line: the event's data, and its name as `event`."""
    line = json.dumps({"event": name, **data}, ensure_ascii=False)
    sys.stdout.write(escaped_in_json(line) + "\n")
    sys.stdout.flush()
