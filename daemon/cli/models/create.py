"""`ingle create`: makes a model with settings of its own from a Modelfile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, print_text
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry
from ..modelfile import read_modelfile
from ..text_file import read_text_file
from .cp import installed_entry, refuse_taken

EXAMPLE = """\
  ingle create helper -f Modelfile

a Modelfile:
  FROM smollm2
  PARAMETER temperature 0.3
  SYSTEM You answer in one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Make one model; raises `CommandError`."""
    parser = CommandParser(
        "create",
        "Make a model from another one, or from a GGUF file, with a system prompt,\n"
        "parameters or a template of its own. The weights are linked, not copied.",
        examples=EXAMPLE,
    )
    parser.add_argument("name", metavar="NAME", help="the name of the new model")
    parser.add_argument(
        "-f", "--file", metavar="FILE", default="Modelfile", help="what it is made of (./Modelfile)"
    )
    options = parser.parse_args(arguments)
    text = read_text_file(options.file, "The file", if_too_long="Shorten it.")
    body = read_modelfile(text, options.file, Path(options.file).absolute().parent)
    client = ensure_daemon(load_config(os.environ))
    source = installed_entry(client, body["from"])
    refuse_taken(client, options.name)
    body |= {"model": options.name, "from": source.name, "stream": False}
    client.post("/api/create", body, dict, timeout=None)
    entry = find_entry(client, options.name)
    if options.json:
        print_json(entry)
    else:
        print_text(f"{entry.name} ({format_bytes(entry.size)}) is made of {source.name}.")
    return 0
