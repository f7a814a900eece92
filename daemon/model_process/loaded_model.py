"""What the API reports of a model that has a process, or had one that failed."""

from __future__ import annotations

import time

import msgspec

from ingle.backends.base.load_spec import Quantize, SpeculationKind
from ingle.backends.base.model_info import Gauges
from ingle.models.fit.memory_needs import MemoryNeeds

from ..machine.memory_reader import ProcessMemory
from .model_run import ModelRun, ModelState


class ModelMemory(msgspec.Struct, frozen=True):
    """Memory predicted before loading, and measured now; bytes.

    Of host memory only anonymous memory is measured, and `mapped` are the resident bytes of mapped
    files; GPU memory is 0 if the driver does not report it.
    """

    predicted: MemoryNeeds
    measured: MemoryNeeds
    mapped: int


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model's process; sizes in bytes, durations in seconds, 0 for what is not known yet.

    `quarantined_for` is how many seconds it will not be started after repeated crashes; else 0.
    """

    name: str
    state: ModelState
    fraction: float
    error: str | None
    quarantined_for: float
    pid: int | None
    engine: str
    device: str
    context: int
    slots: int
    kv_capacity: int
    kv_used: int
    kv_kept: int
    kv_memory_bytes: int
    kv_disk_bytes: int
    restored_tokens: int
    cached_tokens_total: int
    running: int
    waiting: int
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    rss: int
    memory: ModelMemory
    layers: int
    layers_on_gpu: int
    quantize: Quantize
    kv_type: str
    flash_attention: bool
    speculation: SpeculationKind
    draft: str | None
    draft_note: str | None
    prompt_tokens_total: int
    completion_tokens_total: int
    drafted_tokens_total: int
    accepted_tokens_total: int
    preemptions_total: int
    prompt_rate: float
    decode_rate: float
    reason: str
    warnings: list[str]
    pinned: bool
    loaded_for: float
    expires_in: float | None

    @classmethod
    def of(cls, run: ModelRun) -> LoadedModel:
        """Return a snapshot of the run."""
        backend, info = run.backend, run.info
        gauges = backend.gauges if backend is not None else Gauges()
        # The system may reuse the process id once the process has ended.
        pid = backend.pid if backend is not None and backend.state != "dead" else None
        since, process = run.ready_since, ProcessMemory.read(pid)
        return cls(
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
                run.needs,
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
