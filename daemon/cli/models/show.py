"""`ingle show`: shows one model in detail."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...client.client_errors import ClientError, DaemonError
from ...settings.config import load_config
from ...terminal.terminal_output import (
    counted,
    format_bytes,
    format_count,
    print_fields,
    print_json,
)
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, is_hub_reference, sendable_reference
from .fit_summary import ask_fit, context_cost, fit_fields, remote_facts, rough_facts

if TYPE_CHECKING:
    from ...client.model_types import FitReport, LoadedModel, ModelEntry
    from ...client.sync_client import DaemonClient


def main(arguments: Sequence[str]) -> int:
    """Print the model's facts; raises `CommandError`."""
    parser = CommandParser("show", "Show what is known about a model, installed or not.")
    parser.add_argument("model", metavar="MODEL", help="a name from `ingle list`, or a path")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    reference = sendable_reference(options.model)
    try:
        entry = find_entry(client, reference)
    except ClientError:
        if not is_hub_reference(reference):
            raise
        report = ask_fit(client, reference)
        if options.json:
            print_json(report)
        else:
            print_fields(remote_facts(report))
        return 0
    loaded = next((m for m in client.status().models if m.name == entry.name), None)
    runs = loaded is not None and bool(loaded.engine)
    report = None if runs else _report(client, entry, reference)
    if options.json:
        from msgspec.structs import asdict

        print_json({**asdict(entry), "loaded": loaded, "report": report})
        return 0
    rest = _loaded_facts(loaded) if loaded else []
    if report is not None:
        rest += fit_fields(report)
    elif not runs and entry.fit:
        rest += rough_facts(entry.fit)
    print_fields(_facts(entry) + rest)
    return 0


def _report(client: DaemonClient, entry: ModelEntry, reference: str) -> FitReport | None:
    """Return the fit report; None if its file cannot be read."""
    try:
        return ask_fit(client, entry.name if entry.path is None else reference)
    except DaemonError:
        return None


def _chat(entry: ModelEntry) -> str:
    if entry.task == "embed":
        return "no, embeddings only"
    if entry.task == "rerank":
        return "no, ranking only"
    if entry.task == "transcribe":
        return "no, speech recognition only"
    return "yes" if entry.chat else "no, text completion only"


def _facts(entry: ModelEntry) -> list[tuple[str, str]]:
    facts = [
        ("name", entry.name),
        ("state", entry.state),
        ("description", entry.description),
        ("architecture", entry.architecture),
        ("parameters", format_count(entry.parameters)),
        ("quantization", entry.quantization),
        ("size", format_bytes(entry.size)),
        ("context", f"{entry.context} tokens" if entry.context else ""),
        ("chat", _chat(entry)),
        ("vision", "yes, it sees pictures" if entry.vision else ""),
        ("licence", entry.licence),
        ("path", entry.path or ""),
        ("kept by", entry.place),
        *(
            ("kept version", f"{each.sha256[:12]}, {format_bytes(each.size)}")
            for each in entry.kept
        ),
        *(("note", note) for note in entry.notes),
    ]
    optional = ("path", "kept by", "vision")
    return [(label, value or "unknown") for label, value in facts if value or label not in optional]


def _loaded_facts(model: LoadedModel) -> list[tuple[str, str]]:
    """Return how it was loaded."""
    if not model.engine:  # it is starting, or failed
        return [("error", model.error)] if model.error else []
    flash = "with" if model.flash_attention else "without"
    facts = [
        ("engine", model.engine),
        ("runs on", model.device),
        *([("why there", model.reason)] if model.reason else []),
        ("loaded with", f"{model.context} tokens of context for {counted(model.slots, 'request')}"),
        *(
            [("divided", f"among {ranks} processes")]
            if (ranks := model.tensor_parallel) > 1
            else []
        ),
        *([("weights", "quantised to NF4 on load")] if model.quantize == "nf4" else []),
        ("KV cache", context_cost(model)),
        ("attention", f"{flash} flash attention"),
        *([("draft model", Path(model.draft).name)] if model.draft else []),
    ]
    return facts + [("warning", warning) for warning in model.warnings]
