"""`ingle list`: lists installed models, and those that can be pulled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    format_count,
    format_table,
    print_json,
    print_text,
    table_columns,
)
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..progress_report import progress_line

if TYPE_CHECKING:
    from ...client.model_types import DownloadProgress, ModelEntry
    from ...client.routing_types import RoutingProvider

HEADERS = ("NAME", "SIZE", "PARAMS", "QUANT", "CONTEXT", "STATE")


def main(arguments: Sequence[str]) -> int:
    """Print the table; raises `CommandError`."""
    parser = CommandParser(
        "list",
        "List the models on this machine, including those of other programs, then\n"
        "those of the catalog (state 'available'), and those of providers.",
    )
    parser.add_flag("--all", help="include unusable and identical files (reads them once)")
    options = parser.parse_args(arguments)
    from ...client.routing_types import RoutingState

    client = ensure_daemon(load_config(os.environ))
    listing = client.models(compare=options.all)
    providers = client.get("/ingle/v1/routing", RoutingState).providers
    unusable = listing.unusable if options.all else []
    if options.json:
        extra = {"unusable": unusable} if options.all else {}
        extra |= {"pulls": listing.pulls, "unfinished": listing.unfinished}
        extra |= {"providers": providers}
        print_json({"models": listing.models, **extra})
        return 0
    _print_models(listing.models)
    _print_remote_models(providers)
    print_pulls(listing.pulls)
    if listing.unfinished:
        print("\nNot finished (`ingle pull NAME` continues, `ingle rm NAME` removes it):")
    for each in listing.unfinished:
        print_text(f"  {each.name}, {format_bytes(each.received)} downloaded")
    if unusable:
        print("\nFound, but not used:")
    for model in unusable:
        print_text(f"  {model.name} ({model.place}): {model.reason.rstrip('.')}.")
    return 0


def print_pulls(pulls: Sequence[DownloadProgress]) -> None:
    """Print the running downloads, if there are any."""
    if pulls:
        print("\nBeing downloaded:")
    for progress in pulls:
        print_text(f"  {progress_line(progress)}")


def _print_models(models: Sequence[ModelEntry]) -> None:
    """Print ingle's own models, then those of each other program, then the catalog's."""
    own = [entry for entry in models if entry.installed and not entry.place]
    others = [entry for entry in models if entry.place]
    offered = [entry for entry in models if not entry.installed]
    rows = [_row(entry) for entry in (*own, *others, *offered)]
    table = format_table(HEADERS, rows, right="SIZE PARAMS CONTEXT", columns=table_columns())
    header, *lines = table.split("\n")
    print(header)
    place = ""
    for entry, line in zip((*own, *others, *offered), lines, strict=True):
        if others and (entry.place or "the catalog") != place and entry not in own:
            place = entry.place or "the catalog"
            print_text(f"\n{f'In {place}' if entry.installed else 'To be pulled'}:")
        print(line)
        if entry.same_as:
            print_text(f"  same file as {entry.same_as}")


def _print_remote_models(providers: Sequence[RoutingProvider]) -> None:
    """Print the models that providers serve, and whether requests leave the owner's machines."""
    served = [(provider, model) for provider in providers for model in provider.models]
    if served:
        print("\nOf providers (the policy decides what may be sent there, see `ingle route`):")
    for provider, model in served:
        place = "your own server" if provider.own else "leaves your machines"
        trouble = f"; {provider.trouble}" if provider.trouble else ""
        print_text(f"  {provider.name}/{model}: {place}{trouble}")


def _row(entry: ModelEntry) -> list[str]:
    return [
        entry.name + (" (default)" if entry.default else ""),
        format_bytes(entry.size),
        format_count(entry.parameters),
        entry.quantization or "-",
        str(entry.context or "-"),
        entry.state + (", vision" if entry.vision else ""),
    ]
