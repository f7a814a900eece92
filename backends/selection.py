"""Which engine runs a model, and with what settings: pure decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ingle.models.fit import EMBEDDING_SLOTS, check_kv_type
from ingle.models.gguf import GGUFHeader
from ingle.models.kv_type import KVType
from ingle.models.task import ModelTask, Pooling, choose_pooling, task_of

from .base import Backend, EngineKind, LoadSpec, SpeculationKind
from .process import WorkerProcess


def make_load_spec(
    path: Path,
    header: GGUFHeader,
    *,
    context: int,
    slots: int,
    threads: int = 0,
    gpu_layers: int = -1,
    kv_type: KVType = KVType.F16,
    flash_attention: Literal["auto", "on", "off"] = "auto",
    mmap: bool = True,
    mlock: bool = False,
    chat_template: str | None = None,
    speculation: SpeculationKind = "auto",
    compute_lease: Path | None = None,
    pooling: Pooling | None = None,
) -> LoadSpec:
    """How to load a GGUF file; `context` is cut to what the model was trained for.

    `pooling` makes a model embed texts that way, whatever its file says. Raises `UnsupportedModel`
    for models that cannot generate text with this `kv_type`.
    """
    task = ModelTask.EMBED if pooling not in (None, Pooling.RANK) else task_of(header)
    embeds = task is not ModelTask.GENERATE
    if not embeds:
        check_kv_type(header, kv_type)
    return LoadSpec(
        engine=EngineKind.LLAMA_CPP,
        path=str(path),
        context=min(context, header.context) if header.context else context,
        slots=EMBEDDING_SLOTS if embeds else slots,
        threads=threads,
        gpu_layers=gpu_layers,
        kv_type=KVType.F16 if embeds else kv_type,
        flash_attention=flash_attention,
        mmap=mmap,
        mlock=mlock,
        chat_template=chat_template,
        speculation="off" if embeds else speculation,
        compute_lease=str(compute_lease) if compute_lease is not None else None,
        task=task,
        pooling=(pooling or choose_pooling(header, task)) if embeds else None,
    )


def create_backend(spec: LoadSpec) -> Backend:
    """A backend for the specification, not started yet."""
    return WorkerProcess(spec)
