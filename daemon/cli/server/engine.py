"""`ingle engine`: lists, installs, checks and removes what runs models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_json,
    print_status,
    print_table,
    print_text,
    text_columns,
)
from ..command_parser import CommandParser, run_subcommand
from ..daemon_launcher import ensure_daemon
from ..engine_installation import install_engine, list_engines
from ..progress_report import ProgressReport

if TYPE_CHECKING:
    from ...client.engine_types import EngineEntry

HELP = """\
usage: ingle engine list [--json]
       ingle engine install NAME [--from FOLDER|URL] [--json]
       ingle engine check NAME [--json]
       ingle engine remove NAME [--json]

An engine computes what models answer. `llama.cpp` runs every GGUF file on any
processor, and is installed by itself before the first answer. `cuda` is ingle's
own engine for NVIDIA GPUs (RTX 30 and newer); two more are llama.cpp for
GPUs, also for models that only partly fit into a GPU's memory. `speech` turns
speech into text, and text into speech.

Packages come from the index that uv or pip is set up for, in the versions that
this ingle was tested with. With --from they come from a folder of wheels, which
needs no network, or from an index that has wheels of engines which otherwise
are compiled here; `engine_index` in config.toml does the same for good.

`check` starts a process that is confined as those of models are, and says which
step fails: packages, driver, GPU, memory, kernels; and what to do about it.

examples:
  ingle engine list
  ingle engine install cuda
  ingle engine install llama.cpp --from /media/usb/wheels
  ingle engine remove cuda
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the subcommands; raises `CommandError`."""
    subcommands = {
        "list": _list,
        "ls": _list,
        "install": _install,
        "check": _check,
        "remove": _remove,
        "rm": _remove,
    }
    return run_subcommand("engine", HELP, subcommands, arguments)


def _list(arguments: Sequence[str]) -> int:
    parser = CommandParser("engine list", "List the engines, installed or not.")
    options = parser.parse_args(arguments)
    listing = list_engines(ensure_daemon(load_config(os.environ)))
    if options.json:
        print_json(listing)
        return 0
    print_table(("NAME", "STATE", "SIZE", "WHAT IT IS"), [_row(each) for each in listing.engines])
    for heading, notes in (
        ("Not for this machine:", [(each.name, each.useless) for each in listing.engines]),
        ("On this machine:", [(each.name, each.limited) for each in listing.engines]),
    ):
        lines = [f"{name}: {note}" for name, note in notes if note]
        if lines:
            print(f"\n{heading}")
        for line in lines:
            print_text(fill(line, text_columns(), subsequent_indent="  "))
    if listing.offer is not None:
        print_text(f"\n{listing.offer.question}\n`ingle engine install {listing.offer.name}` does.")
    return 0


def _row(entry: EngineEntry) -> list[str]:
    state: str = entry.state
    if entry.progress is not None:
        state = entry.progress.text()
    elif entry.outdated:
        state = f"{entry.version}, outdated"
    elif entry.state == "installed":
        state = entry.version
    size = format_bytes(entry.bytes) if entry.bytes else ""
    if entry.state == "missing" and entry.download_bytes:
        size = f"{format_bytes(entry.download_bytes)} to fetch"
    return [entry.name, state, size, entry.title]


def _install(arguments: Sequence[str]) -> int:
    parser = CommandParser("engine install", "Install an engine, or its newer version.")
    parser.add_argument("name", metavar="NAME", help="a name of `ingle engine list`")
    parser.add_argument(
        "--from", dest="source", metavar="PLACE", help="a folder of wheels, or an index's address"
    )
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    source = options.source
    if source is not None and "://" not in source:
        source = str(Path(source).expanduser().absolute())
    entry = install_engine(client, options.name, source)
    if options.json:
        print_json(entry)
    else:
        print_status(f"{entry.title} {entry.version} is installed ({format_bytes(entry.bytes)}).")
        if entry.useless:
            print_status(f"No model runs faster with it on this machine. {entry.useless}")
        elif entry.limited:
            print_status(entry.limited)
    return 0


def _check(arguments: Sequence[str]) -> int:
    parser = CommandParser("engine check", "Check an engine step by step; 1 if a step fails.")
    parser.add_argument("name", metavar="NAME", help="a name of `ingle engine list`")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.engine_types import EngineCheck

    body = {"engine": options.name}
    with ProgressReport() as progress:
        progress.show_step(f"Checking {options.name}")
        found = client.post("/ingle/v1/engines/check", body, EngineCheck, timeout=None)
    if options.json:
        print_json(found)
    else:
        rows = [(step.name, "ok" if step.passed else "FAILED", step.detail) for step in found.steps]
        print_table(("STEP", "", "FOUND"), rows)
        for remedy in filter(None, (step.remedy for step in found.steps)):
            print_text(f"\n{remedy}")
    return 0 if found.passed else 1


def _remove(arguments: Sequence[str]) -> int:
    parser = CommandParser("engine remove", "Remove an engine that `ingle engine install` brought.")
    parser.add_argument("name", metavar="NAME", help="a name of `ingle engine list`")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.engine_types import EngineRemoved

    path = f"/ingle/v1/engines/{quote(options.name, safe='')}"
    removed = client.delete(path, EngineRemoved, timeout=None)
    if options.json:
        print_json(removed)
    else:
        print_text(f"{removed.name} is removed, {format_bytes(removed.bytes)} freed.")
    return 0
