"""`ingle adapter`: adds, lists and removes LoRA adapters of models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, print_table, print_text
from ..command_parser import CommandParser, run_subcommand
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference

if TYPE_CHECKING:
    from ...client.adapter_types import AdapterEntry

HELP = """\
usage: ingle adapter add MODEL PATH [NAME] [--json]
       ingle adapter list [--json]
       ingle adapter rm MODEL+NAME [--json]
       ingle adapter merge MODEL+NAME TARGET [--output FILE]

A LoRA adapter changes a model with few weights of its own. PATH is the folder
that PEFT saves, with adapter_config.json and adapter_model.safetensors, or a
GGUF file of an adapter. Any program then uses it as the model MODEL+NAME; all
adapters of a model share its weights and its process, also in one batch.
`merge` writes a GGUF file of the model with the adapter in its weights, as
`ingle quantize` does.

examples:
  ingle adapter add smollm2 ./my-adapter french
  ingle run smollm2+french "Hello"
  ingle adapter merge smollm2+french Q8_0
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the subcommands; raises `CommandError`."""
    subcommands = {
        "add": _add,
        "list": _list,
        "ls": _list,
        "rm": _remove,
        "remove": _remove,
        "merge": _merge,
    }
    return run_subcommand("adapter", HELP, subcommands, arguments)


def _add(arguments: Sequence[str]) -> int:
    parser = CommandParser("adapter add", "Copy an adapter, and give it a name.")
    parser.add_argument("model", metavar="MODEL", help="the model that it was made for")
    parser.add_argument("path", metavar="PATH", help="the folder that PEFT saved, or a .gguf file")
    parser.add_argument("name", metavar="NAME", nargs="?", help="by default that of PATH")
    options = parser.parse_args(arguments)
    path = Path(options.path).expanduser().absolute()
    client = ensure_daemon(load_config(os.environ))
    from ...client.adapter_types import AdapterEntry

    body = {
        "model": sendable_reference(options.model),
        "path": str(path),
        "name": options.name or path.name.removesuffix(".gguf"),
    }
    entry = client.post("/ingle/v1/adapters", body, AdapterEntry)
    if options.json:
        print_json(entry)
    else:
        print_text(f"{entry.name} ({format_bytes(entry.size)}) can be used as a model.")
    return 0


def _list(arguments: Sequence[str]) -> int:
    parser = CommandParser("adapter list", "List the adapters of all models.")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.adapter_types import AdapterEntries

    found = client.get("/ingle/v1/adapters", AdapterEntries)
    if options.json:
        print_json(found)
    elif found.adapters:
        rows = [[each.name, format_bytes(each.size)] for each in found.adapters]
        print_table(("NAME", "SIZE"), rows)
    else:
        print_text("There are no adapters. `ingle adapter add` adds one.")
    return 0


def _remove(arguments: Sequence[str]) -> int:
    parser = CommandParser("adapter rm", "Remove an adapter.")
    parser.add_argument("name", metavar="MODEL+NAME", help="a name from `ingle adapter list`")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.adapter_types import AdapterEntry

    path = f"/ingle/v1/adapters/{quote(sendable_reference(options.name), safe='')}"
    entry = client.delete(path, AdapterEntry)
    if options.json:
        print_json(entry)
    else:
        print_text(f"Removed {entry.name}.")
    return 0


def _merge(arguments: Sequence[str]) -> int:
    from .quantize import main as quantize

    return quantize(arguments)


def find_adapter(wanted: str) -> AdapterEntry | None:
    """The adapter of this name; None if the name is that of a model. Raises `CommandError`."""
    if "+" not in wanted:
        return None
    from ...client.adapter_types import AdapterEntries

    name = sendable_reference(wanted)
    found = ensure_daemon(load_config(os.environ)).get("/ingle/v1/adapters", AdapterEntries)
    return next((each for each in found.adapters if each.name.lower() == name.lower()), None)
