"""Builds the settings with which an engine loads a model, from the model's own metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ingle.models.fit.llama_cpp_fit import EMBEDDING_SLOTS
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling, choose_pooling
from ingle.models.safetensors.model_folder import ModelFolder, read_folder

from ..base.load_spec import LoadSpec, Quantize, SpeculationKind
from ..registry.engine_descriptor import LoadQuery, task_with
from ..registry.engines import DEFAULT_ENGINE, get_engine


def describe(path: Path) -> GGUFHeader | ModelFolder:
    """Read the metadata of a model's file or folder; raises what reading it raises."""
    return read_folder(path) if path.is_dir() else read_header(path)


def make_load_spec(
    model: GGUFHeader | ModelFolder,
    *,
    context: int,
    slots: int,
    engine: str = DEFAULT_ENGINE,
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
    """Return how an engine loads a model; `context` is cut to what the model was trained for.

    `pooling` makes a model embed texts that way, whatever its file says; `quantize` is for engines
    that convert weights. Raises `UnsupportedModel` if the engine has no such KV cache for it.
    """
    task, descriptor = ModelTask.GENERATE, get_engine(engine)
    if isinstance(model, GGUFHeader):
        task, trained = task_with(model, pooling), model.context
        if task is not ModelTask.GENERATE:
            pooling = pooling or choose_pooling(model, task)
        elif (error := descriptor.refusal(LoadQuery(model, kv_type))) is not None:
            raise error
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
        quantize=quantize if descriptor.converts_weights else "none",
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
