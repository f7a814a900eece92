"""`ingle show`: one model in detail."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from urllib.parse import quote

from ..config import load_config
from .client import DaemonClient
from .daemon_process import ensure_daemon
from .errors import RequestFailed
from .output import format_bytes, format_count, print_json, visible
from .parser import CommandParser
from .reference import find_entry, matching_entry, sendable_reference
from .wire import LoadedModel, ModelEntry


def main(arguments: Sequence[str]) -> int:
    """Print the model's facts; raises `CommandError`."""
    parser = CommandParser("show", "Show what is known about a model, installed or not.")
    parser.add_argument("model", metavar="MODEL", help="a name from `ingle list`, or a path")
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    entry = _find(client, sendable_reference(options.model))
    loaded = next((m for m in client.status()["models"] if m["name"] == entry["name"]), None)
    if options.json:
        print_json({**entry, "loaded": loaded})
        return 0
    for label, value in _facts(entry) + (_loaded_facts(loaded) if loaded else []):
        print(f"{label:<13} {visible(value)}")
    return 0


def _find(client: DaemonClient, reference: str) -> ModelEntry:
    """The entry of a name, or of a file, a folder or an alias, which are in no list."""
    models = client.models()
    if not Path(reference).is_absolute() and (entry := matching_entry(models, reference)):
        return entry
    try:
        return cast("ModelEntry", client.get(f"/ingle/v1/models/{quote(reference, safe='')}"))
    except RequestFailed as error:
        if error.code != "model_not_found" or Path(reference).is_absolute():
            raise
        return find_entry(models, reference)  # which knows the names of the catalog, too


def _chat(entry: ModelEntry) -> str:
    if entry["task"] == "embed":
        return "no, embeddings only"
    if entry["task"] == "rerank":
        return "no, ranking only"
    return "yes" if entry["chat"] else "no, text completion only"


def _facts(entry: ModelEntry) -> list[tuple[str, str]]:
    facts = [
        ("name", entry["name"]),
        ("state", entry["state"]),
        ("description", entry["description"]),
        ("architecture", entry["architecture"]),
        ("parameters", format_count(entry["parameters"])),
        ("quantization", entry["quantization"]),
        ("size", format_bytes(entry["size"])),
        ("context", f"{entry['context']} tokens" if entry["context"] else ""),
        ("chat", _chat(entry)),
        ("licence", entry["licence"]),
        ("path", entry["path"] or ""),
    ]
    return [(label, value or "unknown") for label, value in facts if value or label != "path"]


def _loaded_facts(model: LoadedModel) -> list[tuple[str, str]]:
    """What it got when it was loaded."""
    if not model["engine"]:
        return []  # it starts, or failed
    flash = "with" if model["flash_attention"] else "without"
    facts = [
        ("engine", model["engine"]),
        ("runs on", model["device"]),
        ("loaded with", f"{model['context']} tokens of context for {model['slots']} requests"),
        *([("weights", "put into NF4 on load")] if model["quantize"] == "nf4" else []),
        ("KV cache", f"{model['kv_type']}, {format_bytes(model['kv_bytes'])}"),
        ("attention", f"{flash} flash attention"),
    ]
    return facts + [("warning", warning) for warning in model["warnings"]]
