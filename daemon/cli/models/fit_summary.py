"""Text about whether a model would run here, for a terminal."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ...terminal.terminal_output import format_bytes, format_count

if TYPE_CHECKING:
    from ...client.model_types import FitReport, LoadedModel, MemoryShare, ModelFit
    from ...client.sync_client import DaemonClient

_PATIENCE = 120.0
"""Seconds; a header can have some mebibytes, and its server may be slow."""


def ask_fit(client: DaemonClient, reference: str) -> FitReport:
    """Return the daemon's fit report for a model, installed or not; raises `CommandError`."""
    from ...client.model_types import FitReport

    query = urlencode({"model": reference})
    return client.get(f"/ingle/v1/fit?{query}", FitReport, timeout=_PATIENCE)


def fit_fields(report: FitReport) -> list[tuple[str, str]]:
    """Return where it would run, the memory it needs, and whether it fits."""
    needs, free = report.needs, report.available
    facts = [("would run", report.reason)]
    if report.with_engine:
        facts.append(("could run", report.with_engine))
    shares = [("memory", report.host), ("GPU memory", report.gpu)]
    if report.other_gpus:
        on_gpus = enumerate([report.gpu, *report.other_gpus])
        shares[1:] = [(f"memory of GPU {number}", share) for number, share in on_gpus]
    facts += [(kind, _parts(share)) for kind, share in shares if share.total]
    if report.draft:
        size = format_bytes(report.draft_needs.host + sum(report.draft_needs.gpus))
        facts.append(("draft model", f"{report.draft}, with {size} more"))
    if not report.fits:
        pairs = [(needs.host, free.host), *zip_longest(needs.gpus, free.gpus, fillvalue=0)]
        short = max(needed - there for needed, there in pairs)
        facts.append(("fits", f"no, {format_bytes(short)} are missing"))
    elif report.longest_context > report.context:
        facts.append(("fits", f"yes, with up to {report.longest_context:,} tokens of context"))
    else:
        facts.append(("fits", "yes"))
    return facts


def rough_facts(fit: ModelFit) -> list[tuple[str, str]]:
    """Return whether it would run, if its headers could not be read."""
    answers = {"fits": "probably", "spills": "probably, partly outside the GPU"}
    needs, free = format_bytes(fit.needs_bytes), format_bytes(fit.free_bytes)
    answer = answers.get(fit.state, "probably not")
    engine = f" with the engine {fit.needs_engine}" if fit.needs_engine else ""
    return [("fits", f"{answer}{engine}: it needs about {needs}, and {free} are free")]


def remote_facts(report: FitReport) -> list[tuple[str, str]]:
    """Return the facts about a model that is not installed."""
    facts = [
        ("name", report.name),
        ("state", f"not installed; `ingle pull {report.name}` fetches it"),
        ("architecture", report.architecture),
        ("parameters", format_count(report.parameters)),
        ("quantization", report.quantization),
        ("size", format_bytes(report.size)),
        ("context", f"{report.trained_context} tokens"),
        ("licence", report.licence),
        *fit_fields(report),
    ]
    if report.fetched:
        facts.append(("read for this", format_bytes(report.fetched)))
    return facts


def _parts(share: MemoryShare) -> str:
    sizes = {
        "weights": share.weights,
        "KV cache": share.kv,
        "buffers": share.compute,
        "process": share.runtime,
    }
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items() if size)
    return f"{format_bytes(share.total)}: {parts}"


def context_cost(loaded: LoadedModel) -> str:
    """Return what the context takes, and how long it can get."""
    cost = f"{loaded.kv_type}, {format_bytes(loaded.kv_bytes)}"
    if loaded.longest_context <= loaded.context:
        return cost
    return f"{cost}; a longer prompt reloads the model with up to {loaded.longest_context:,} tokens"
