"""With what settings an engine loads a model: pure decisions about what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ingle.models.fit.llama_cpp_fit import EMBEDDING_SLOTS, check_kv_type
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling, choose_pooling
from ingle.models.safetensors.model_folder import ModelFolder, read_folder

from ..base.backend import Backend
from ..base.load_spec import EngineKind, LoadSpec, Quantize, SpeculationKind
from ..worker.supervisor.worker_process import WorkerProcess
from .engine_choice import task_with


def describe(path: Path) -> GGUFHeader | ModelFolder:
    """What a model's file or folder says about itself; raises what reading it raises."""
    return read_folder(path) if path.is_dir() else read_header(path)


def make_load_spec(
    model: GGUFHeader | ModelFolder,
    *,
    context: int,
    slots: int,
    engine: EngineKind = EngineKind.LLAMA_CPP,
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
    quantize: Quantize = "none",
) -> LoadSpec:
    """How an engine loads a model; `context` is cut to what the model was trained for.

    `pooling` makes a model embed texts that way, whatever its file says; `quantize` is for ingle's
    own engine. Raises `UnsupportedModel` for models that llama.cpp cannot run with this `kv_type`.
    """
    task = ModelTask.GENERATE
    if isinstance(model, GGUFHeader):
        task, trained = task_with(model, pooling), model.context
        if task is not ModelTask.GENERATE:
            pooling = pooling or choose_pooling(model, task)
        elif engine is EngineKind.LLAMA_CPP:  # for ours, `choose_engine` has checked it
            check_kv_type(model, kv_type)
    else:
        trained = model.config.context
    embeds = task is not ModelTask.GENERATE
    return LoadSpec(
        engine=engine,
        path=str(model.path),
        context=min(context, trained) if trained else context,
        slots=EMBEDDING_SLOTS if embeds else slots,
        threads=threads,
        gpu_layers=gpu_layers,
        device="cpu" if gpu_layers == 0 else "auto",
        quantize=quantize if engine is EngineKind.CUDA else "none",
        kv_type=KVType.F16 if embeds else kv_type,
        flash_attention=flash_attention,
        mmap=mmap,
        mlock=mlock,
        chat_template=chat_template,
        speculation="off" if embeds else speculation,
        compute_lease=str(compute_lease) if compute_lease is not None else None,
        task=task,
        pooling=pooling if embeds else None,
        stamps=list(model.stamps) if isinstance(model, GGUFHeader) else [],
    )


def create_backend(spec: LoadSpec) -> Backend:
    """A backend for the specification, not started yet."""
    return WorkerProcess(spec)
