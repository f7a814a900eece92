"""`ingle list`: lists installed models, and those that can be pulled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast

from ...client.api_types import ModelEntry, UnusableModel
from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    format_count,
    format_table,
    print_json,
    strip_control_characters,
    table_columns,
)
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon

HEADERS = ("NAME", "SIZE", "PARAMS", "QUANT", "CONTEXT", "STATE")


def main(arguments: Sequence[str]) -> int:
    """Print the table; raises `CommandError`."""
    parser = CommandParser(
        "list",
        "List the models on this machine, including those of other programs, then\n"
        "those of the catalog (state 'available').",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="include unusable and identical files (reads them once)",
    )
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    # Reading files to compare them takes a while, the first time.
    listing = (
        client.get("/ingle/v1/models?compare=true", timeout=None)
        if options.all
        else client.get("/ingle/v1/models")
    )
    models = cast("list[ModelEntry]", listing["models"])
    unusable = cast("list[UnusableModel]", listing.get("unusable", []))
    if options.json:
        print_json({"models": models, **({"unusable": unusable} if options.all else {})})
        return 0
    _print_models(models)
    if options.all:
        _print_unusable(unusable)
    return 0


def _print_models(models: Sequence[ModelEntry]) -> None:
    """Print ingle's own models, then those of each other program, then the catalog's."""
    own = [entry for entry in models if entry["installed"] and not entry.get("place")]
    others = [entry for entry in models if entry.get("place")]
    offered = [entry for entry in models if not entry["installed"]]
    rows = [_row(entry) for entry in (*own, *others, *offered)]
    table = format_table(HEADERS, rows, right="SIZE PARAMS CONTEXT", columns=table_columns())
    header, *lines = table.split("\n")
    print(header)
    place = ""
    for entry, line in zip((*own, *others, *offered), lines, strict=True):
        if others and (entry.get("place") or "the catalog") != place and entry not in own:
            place = entry.get("place") or "the catalog"
            print(
                strip_control_characters(
                    f"\n{'To be pulled' if not entry['installed'] else 'In ' + place}:"
                )
            )
        print(line)
        if same := entry.get("same_as"):
            print(strip_control_characters(f"  same file as {same}"))


def _row(entry: ModelEntry) -> list[str]:
    return [
        entry["name"] + (" (default)" if entry["default"] else ""),
        format_bytes(entry["size"]),
        format_count(entry["parameters"]),
        entry["quantization"] or "-",
        str(entry["context"] or "-"),
        entry["state"],
    ]


def _print_unusable(models: Sequence[UnusableModel]) -> None:
    if not models:
        return
    print("\nFound, but not used:")
    for model in models:
        print(
            strip_control_characters(
                f"  {model['name']} ({model['place']}): {model['reason'].rstrip('.')}."
            )
        )
