"""Describes a model's process, or its failed last one, for the API."""

from __future__ import annotations

import time

from ingle.backends.base.model_info import Gauges, ModelInfo
from ingle.models.fit.memory_needs import MemoryNeeds

from ..client.model_types import LoadedModel, ModelMemory
from ..machine.memory_reader import ProcessMemory, memory_bytes
from .model_run import ModelRun, ModelState

# Fields with the same name in both have the same meaning.
_FROM_INFO = set(LoadedModel.__struct_fields__) & set(ModelInfo.__struct_fields__) - {"warnings"}
_FROM_GAUGES = set(LoadedModel.__struct_fields__) & set(Gauges.__struct_fields__) - _FROM_INFO


def loaded_model(run: ModelRun) -> LoadedModel:
    """Return the current state of the run, as the API shows it."""
    backend, info, gauges = run.backend, run.info, run.gauges
    # Once a process has ended, the system may give its number to another.
    pid = backend.pid if backend is not None and backend.state != "dead" else None
    ranks = run.spec.tensor_parallel if run.spec else 1
    since, process = run.ready_since, ProcessMemory.read(pid, with_children=ranks > 1)
    fields = {name: getattr(gauges, name) for name in _FROM_GAUGES}
    if info is not None:
        fields |= {name: getattr(info, name) for name in _FROM_INFO}
    fields |= {name: round(fields[name], 1) for name in ("prompt_rate", "decode_rate")}
    return LoadedModel(
        **fields,
        name=run.model.name,
        state=run.state,
        fraction=run.fraction,
        error=run.error,
        quarantined_for=round(quarantine_left(run), 1),
        pid=pid,
        longest_context=max(run.longest_context, info.context) if info is not None else 0,
        restored_tokens=gauges.restored_tokens_total,
        rss=process.resident,
        memory=ModelMemory(
            memory_bytes(run.needs),
            memory_bytes(run.on_gpus + MemoryNeeds(process.private)),
            process.resident - process.private,
            run.reclaimable,
        ),
        quantize=run.spec.quantize if run.spec else "none",
        tensor_parallel=ranks,
        reason=run.reason,
        warnings=_warnings(run),
        known_agents=list(run.known_agents),
        pinned=run.pinned,
        loaded_for=0.0 if since is None else time.monotonic() - since,
        expires_in=run.expires_in,
    )


def quarantine_left(run: ModelRun) -> float:
    """Return the seconds until a quarantined model may start; 0 if it may now."""
    return run.crashes.quarantine_left() if run.state is ModelState.FAILED else 0.0


def _warnings(run: ModelRun) -> list[str]:
    """Return one sentence for each request that could not be met."""
    if run.info is None:
        return []
    if run.cuts:
        return [*run.cuts, *run.info.warnings]
    info, wanted = run.info, run.options.context or run.options.least_context
    if wanted is None or wanted <= info.context:
        return info.warnings
    cut = f"A context of {wanted} tokens was requested, but the model has {info.context}."
    return [cut, *info.warnings]
