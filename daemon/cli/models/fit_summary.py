"""Text about whether a model would run here, for a terminal."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlencode

from ...client.api_types import FitReport, MemoryShare, ModelFit
from ...client.sync_client import DaemonClient
from ...terminal.terminal_output import format_bytes, format_count

_PATIENCE = 120.0
"""Seconds; a header from a slow server has some mebibytes."""


def ask_fit(client: DaemonClient, reference: str, context: int | None = None) -> FitReport:
    """Return the daemon's fit report for a model, installed or not; raises `CommandError`."""
    query = {"model": reference} | ({} if context is None else {"context": str(context)})
    return cast("FitReport", client.get(f"/ingle/v1/fit?{urlencode(query)}", timeout=_PATIENCE))


def fit_fields(report: FitReport) -> list[tuple[str, str]]:
    """Return where it would run and what that needs."""
    longest = report["longest_context"]
    needs, free = report["needs"], report["available"]
    facts = [("would run", report["reason"])]
    for kind, share in (("memory", report["host"]), ("GPU memory", report["gpu"])):
        if share["total"]:
            facts.append((kind, _parts(share)))
    if not report["fits"]:
        short = max(needs["host"] - free["host"], needs["gpu"] - free["gpu"])
        facts.append(("fits", f"no, {format_bytes(short)} are missing"))
    elif longest > report["context"]:
        facts.append(("fits", f"yes, with up to {longest:,} tokens of context"))
    else:
        facts.append(("fits", "yes"))
    return facts


def rough_facts(fit: ModelFit) -> list[tuple[str, str]]:
    """Return whether it would run, if its headers could not be read."""
    answer = {"fits": "probably", "spills": "probably, partly outside the GPU"}
    needs, free = format_bytes(fit["needs_bytes"]), format_bytes(fit["free_bytes"])
    said = answer.get(fit["state"], "probably not")
    return [("fits", f"{said}: it needs about {needs}, and {free} are free")]


def remote_facts(report: FitReport) -> list[tuple[str, str]]:
    """Return all that is known of a model that is not installed."""
    name = report["name"]
    facts = [
        ("name", name),
        ("state", f"not installed; `ingle pull {name}` fetches it"),
        ("architecture", report["architecture"]),
        ("parameters", format_count(report["parameters"])),
        ("quantization", report["quantization"]),
        ("size", format_bytes(report["size"])),
        ("context", f"{report['trained_context']} tokens"),
        ("licence", report["licence"]),
        *fit_fields(report),
    ]
    if report["fetched"]:
        facts.append(("read for this", format_bytes(report["fetched"])))
    return facts


def _parts(share: MemoryShare) -> str:
    parts = (
        ("weights", share["weights"]),
        ("KV cache", share["kv"]),
        ("buffers", share["compute"]),
        ("process", share["runtime"]),
    )
    told = ", ".join(f"{name} {format_bytes(size)}" for name, size in parts if size)
    return f"{format_bytes(share['total'])}: {told}"
