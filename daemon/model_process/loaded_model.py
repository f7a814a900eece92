"""What the API reports of a model that has a process, or had one that failed."""

from __future__ import annotations

import time

from ingle.backends.base.model_info import Gauges

from ..client.model_types import LoadedModel, MemoryNeeds, ModelMemory
from ..machine.memory_reader import ProcessMemory
from .model_run import ModelRun, ModelState


def loaded_model(run: ModelRun) -> LoadedModel:
    """The current state of the run, as the API shows it."""
    backend, info = run.backend, run.info
    gauges = backend.gauges if backend is not None else Gauges()
    # Once a process has ended the system may give its number to another.
    pid = backend.pid if backend is not None and backend.state != "dead" else None
    since, process = run.ready_since, ProcessMemory.read(pid)
    return LoadedModel(
        name=run.model.name,
        state=run.state,
        fraction=run.fraction,
        error=run.error,
        quarantined_for=round(quarantine_left(run), 1),
        pid=pid,
        engine=info.engine if info else "",
        device=info.device if info else "",
        context=info.context if info else 0,
        slots=info.slots if info else 0,
        kv_capacity=info.kv_capacity if info else 0,
        kv_used=gauges.kv_used,
        kv_kept=gauges.kv_kept,
        kv_memory_bytes=gauges.kv_memory_bytes,
        kv_disk_bytes=gauges.kv_disk_bytes,
        restored_tokens=gauges.restored_tokens_total,
        cached_tokens_total=gauges.cached_tokens_total,
        running=gauges.running,
        waiting=gauges.waiting,
        weights_bytes=info.weights_bytes if info else 0,
        kv_bytes=info.kv_bytes if info else 0,
        compute_bytes=info.compute_bytes if info else 0,
        rss=process.resident,
        memory=ModelMemory(
            MemoryNeeds(run.needs.host, run.needs.gpu),
            MemoryNeeds(process.private, run.gpu_bytes),
            process.resident - process.private,
        ),
        layers=info.layers if info else 0,
        layers_on_gpu=info.layers_on_gpu if info else 0,
        quantize=run.spec.quantize if run.spec else "none",
        kv_type=info.kv_type if info else "",
        flash_attention=info.flash_attention if info else False,
        speculation=info.speculation if info else "off",
        draft=info.draft if info else None,
        draft_note=info.draft_note if info else None,
        prompt_tokens_total=gauges.prompt_tokens_total,
        completion_tokens_total=gauges.completion_tokens_total,
        drafted_tokens_total=gauges.drafted_tokens_total,
        accepted_tokens_total=gauges.accepted_tokens_total,
        preemptions_total=gauges.preemptions_total,
        prompt_rate=round(gauges.prompt_rate, 1),
        decode_rate=round(gauges.decode_rate, 1),
        reason=run.reason,
        warnings=_warnings(run),
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
