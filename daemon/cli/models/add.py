"""`ingle add`: gives a name to a model file or folder on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...settings.config import load_config
from ...terminal.terminal_output import format_bytes, print_json, print_text
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
        "  ingle add ./FOLDER mine:bf16\n"
        "  ingle add ./gemma-3-4b-Q4_0.gguf --mmproj ./mmproj-gemma-3-4b-f16.gguf",
    )
    parser.add_argument("path", metavar="PATH", help="a .gguf file, or a folder of safetensors")
    parser.add_argument("name", metavar="NAME", nargs="?", help="by default derived from the model")
    parser.add_argument(
        "--mmproj", metavar="FILE", help="its projector, to see pictures (default: one beside it)"
    )
    options = parser.parse_args(arguments)
    path, projector = _absolute(options.path), options.mmproj and _absolute(options.mmproj)
    client = ensure_daemon(load_config(os.environ))
    from ...client.model_types import ModelEntry

    body = {"path": path, "name": options.name}
    if projector:
        body["mmproj"] = projector
    entry = client.post("/ingle/v1/models", body, ModelEntry)
    if options.json:
        print_json(entry)
    else:
        print_text(f"{entry.name} ({format_bytes(entry.size)}) is used in place: {entry.path}")
    return 0


def _absolute(reference: str) -> str:
    return str(Path(sendable_reference(reference)).expanduser().absolute())
