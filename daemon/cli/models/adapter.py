"""`ingle adapter`: adds, lists and removes LoRA adapters of models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, print_table, print_text
from ..command_parser import CommandParser, run_subcommand
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference

HELP = """\
usage: ingle adapter add MODEL FOLDER [NAME] [--json]
       ingle adapter list [--json]
       ingle adapter rm MODEL+NAME [--json]

A LoRA adapter changes a model with few weights of its own. FOLDER is what PEFT
saves: adapter_config.json and adapter_model.safetensors. Any program then uses
it as the model MODEL+NAME; all adapters of a model share its weights and its
process, also in one batch. ingle's own engine computes them.

examples:
  ingle adapter add ./smollm2 ./my-adapter french
  ingle run ./smollm2+french "Hello"
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the subcommands; raises `CommandError`."""
    subcommands = {"add": _add, "list": _list, "ls": _list, "rm": _remove, "remove": _remove}
    return run_subcommand("adapter", HELP, subcommands, arguments)


def _add(arguments: Sequence[str]) -> int:
    parser = CommandParser("adapter add", "Copy an adapter, and give it a name.")
    parser.add_argument("model", metavar="MODEL", help="the model that it was made for")
    parser.add_argument("folder", metavar="FOLDER", help="what PEFT saved")
    parser.add_argument("name", metavar="NAME", nargs="?", help="by default that of the folder")
    options = parser.parse_args(arguments)
    folder = Path(options.folder).expanduser().absolute()
    client = ensure_daemon(load_config(os.environ))
    from ...client.adapter_types import AdapterEntry

    body = {
        "model": sendable_reference(options.model),
        "path": str(folder),
        "name": options.name or folder.name,
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
        print_text(f"Removed {entry.name}. A loaded {entry.model} keeps it until it is unloaded.")
    return 0
