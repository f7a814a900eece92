"""`ingle list`: the models here, and those that can be pulled."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..config import load_config
from .daemon_process import ensure_daemon
from .output import format_bytes, format_count, format_table, print_json, table_columns
from .parser import CommandParser
from .wire import ModelEntry

HEADERS = ("NAME", "SIZE", "PARAMS", "QUANT", "CONTEXT", "STATE")


def main(arguments: Sequence[str]) -> int:
    """Print the table; raises `CommandError`."""
    parser = CommandParser(
        "list", "List the models on this machine, then those of the catalog (state 'available')."
    )
    parser.add_json()
    options = parser.parse_args(arguments)
    models = ensure_daemon(load_config(os.environ)).models()
    if options.json:
        print_json({"models": models})
        return 0
    ordered = sorted(models, key=lambda entry: not entry["installed"])
    rows = [_row(entry) for entry in ordered]
    print(format_table(HEADERS, rows, right="SIZE PARAMS CONTEXT", columns=table_columns()))
    return 0


def _row(entry: ModelEntry) -> list[str]:
    return [
        entry["name"] + (" (default)" if entry["default"] else ""),
        format_bytes(entry["size"]),
        format_count(entry["parameters"]),
        entry["quantization"] or "-",
        str(entry["context"] or "-"),
        entry["state"],
    ]
