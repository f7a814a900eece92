"""`ingle add`: gives a name to a model file or folder on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ...client.api_types import ModelEntry
from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, strip_control_characters
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference


def main(arguments: Sequence[str]) -> int:
    """Add one file or folder; raises `CommandError`."""
    parser = CommandParser(
        "add",
        "Give a model on this machine a name of its own. Nothing is copied; `ingle rm`\n"
        "removes the name again and leaves the file.",
        examples="  ingle add ~/models/Llama-3.2-1B-Q8_0.gguf llama\n"
        "  ingle add ./FOLDER mine:bf16",
    )
    parser.add_argument("path", metavar="PATH", help="a .gguf file, or a folder of safetensors")
    parser.add_argument("name", metavar="NAME", nargs="?", help="by default derived from the model")
    parser.add_json()
    options = parser.parse_args(arguments)
    path = Path(sendable_reference(options.path)).expanduser().absolute()
    body = {"path": str(path), "name": options.name}
    client = ensure_daemon(load_config(os.environ))
    entry = cast("ModelEntry", client.post("/ingle/v1/models", body))
    if options.json:
        print_json(entry)
        return 0
    print(
        strip_control_characters(
            f"{entry['name']} ({format_bytes(entry['size'])}) is used in place: {entry['path']}"
        )
    )
    return 0
