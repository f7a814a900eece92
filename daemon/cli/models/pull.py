"""`ingle pull`: downloads models, and finds the file of one that a command names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...client.client_errors import ClientError, ConnectionLost, DaemonError
from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_fields,
    print_json,
    print_status,
)
from ...terminal.unsafe_characters import escaped_in_json
from ..command_errors import CommandError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, is_hub_reference, sendable_reference
from ..progress_report import ProgressReport
from .fit_summary import ask_fit, fit_fields, remote_facts

if TYPE_CHECKING:
    from ...client.model_types import ModelEntry
    from ...client.sse_parser import ServerSentEvent
    from ...client.sync_client import DaemonClient


def main(arguments: Sequence[str]) -> int:
    """Pull each named model; raises `CommandError` at the first that fails."""
    parser = CommandParser(
        "pull",
        "Download models. The daemon does the work: a pull that was stopped or\n"
        "interrupted continues where it was.",
        examples="  ingle pull smollm2\n  ingle pull hf.co/owner/repository:Q4_K_M",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a catalog name or a reference")
    parser.add_flag(
        "--dry-run", help="only show what would be downloaded, and whether it would run here"
    )
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    if options.dry_run:
        _print_plan(client, options.models, as_json=options.json)
        return 0
    for model in options.models:
        pull(client, sendable_reference(model), as_json=options.json)
    return 0


def pull(client: DaemonClient, model: str, *, as_json: bool = False) -> ModelEntry:
    """Download `model`, with progress on standard error, or all events as lines of JSON.

    Raises as `follow_pull`.
    """
    entry = follow_pull(client, model, as_json=as_json)
    if not as_json:
        print_status(_ready(entry))
    return entry


def follow_pull(
    client: DaemonClient, model: str, path: str = "/ingle/v1/pull", *, as_json: bool = False
) -> ModelEntry:
    """Follow the download that a POST to `path` starts, to its end.

    Raises `CommandError`; Ctrl-C stops the download, whose partial file is kept.
    """
    from ...client.model_types import DownloadProgress, ModelEntry
    from ...client.sync_client import read_event

    again = f"`ingle {'pull' if path.endswith('pull') else 'update'} {model}`"
    report = ProgressReport()
    try:
        for event in client.events("POST", path, {"model": model}):
            if as_json:
                _print_event(event)
            elif event.event == "progress":
                report.show(read_event(event, DownloadProgress))
            if event.event == "done":
                return read_event(event, ModelEntry)
    except KeyboardInterrupt:
        report.close()
        # If the daemon is gone, there is nothing left to cancel.
        with suppress(ClientError):
            client.post("/ingle/v1/pull/cancel", {"model": model}, dict, timeout=5.0)
        print_status(f"Stopped. {again} continues where it was.")
        raise
    finally:
        report.close()
    raise ConnectionLost(
        f"The daemon ended the download of '{model}' without a reason.",
        f"{again} continues where it was.",
    )


def _print_plan(client: DaemonClient, models: Sequence[str], *, as_json: bool) -> None:
    """Print what pulling would download; reads no more than the headers of the files."""
    reports = [ask_fit(client, sendable_reference(model)) for model in models]
    if as_json:
        print_json(reports if len(reports) > 1 else reports[0])
        return
    for number, report in enumerate(reports):
        if number:
            print()
        if report.installed:
            print_fields([("name", report.name), ("state", "here already"), *fit_fields(report)])
        else:
            print_fields(remote_facts(report))


def _ready(entry: ModelEntry) -> str:
    size = format_bytes(entry.size)
    if entry.place:
        where = f"It is used in place, and nothing was downloaded: {entry.path}"
        return f"{entry.name} is already in {entry.place} ({size}). {where}"
    return f"{entry.name} is ready ({size})."


def _print_event(event: ServerSentEvent) -> None:
    """Print one JSON object per line: the event's data, and its name as `event`."""
    line = json.dumps({"event": event.event, **json.loads(event.data)}, ensure_ascii=False)
    sys.stdout.write(escaped_in_json(line) + "\n")
    sys.stdout.flush()


def find_model_path(wanted: str) -> tuple[str, str]:
    """Return name and path; a model of the catalog or the hub is pulled first. Raises
    `CommandError`.
    """
    reference = sendable_reference(wanted)
    if Path(reference).is_absolute():
        return Path(reference).name, reference
    client = ensure_daemon(load_config(os.environ))
    try:
        entry = find_entry(client, reference)
    except DaemonError as error:
        if error.code != "model_not_found" or not is_hub_reference(reference):
            raise
        entry = pull(client, reference)
    if entry.task != "generate":
        raise CommandError(
            f"{entry.name} does not generate text: it is for {entry.purpose}.",
            "Only models that generate text can be compared or quantised here.",
        )
    if entry.path is None:
        entry = pull(client, entry.name)
    if entry.path is None:
        raise CommandError(f"{entry.name} was pulled, but its file is missing.", "Pull it again.")
    return entry.name, entry.path
