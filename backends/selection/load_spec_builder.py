"""Completes the specification of a load from the metadata of the model."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from ingle.models.fit.llama_cpp_fit import EMBEDDING_SLOTS
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, choose_pooling
from ingle.models.safetensors.model_folder import ModelFolder, read_folder

from ..base.load_spec import LoadSpec
from ..registry.engine_descriptor import LoadQuery
from ..registry.engines import get_engine


def describe(path: Path) -> GGUFHeader | ModelFolder:
    """Read the metadata of a model's file or folder; raises what reading it raises."""
    return read_folder(path) if path.is_dir() else read_header(path)


def complete_spec(wanted: LoadSpec, model: GGUFHeader | ModelFolder) -> LoadSpec:
    """Return `wanted` with the settings that follow from the model's metadata.

    The context is cut to the one that the model was trained for. A `pooling` makes the model embed
    texts that way, whatever its file says. Raises `UnsupportedModel` if the engine has no such KV
    cache for the model.
    """
    engine = get_engine(wanted.engine)
    ranks = wanted.tensor_parallel if engine.divides_models else 1
    query = LoadQuery(model, wanted.kv_type, -1, wanted.pooling, ranks)
    trained = model.config.context if isinstance(model, ModelFolder) else model.context
    spec = replace(
        wanted,
        context=min(wanted.context, trained) if trained else wanted.context,
        device="cpu" if wanted.gpu_layers == 0 else "auto",
        quantize=wanted.quantize if engine.converts_weights else "none",
        tensor_parallel=ranks,
        stages=wanted.stages if ranks > 1 else (),
        task=query.task,
        pooling=None,
        stamps=list(model.stamps) if isinstance(model, GGUFHeader) else [],
    )
    if isinstance(model, ModelFolder):
        return spec
    if query.task is ModelTask.GENERATE:
        if (error := engine.refusal(query)) is not None:
            raise error
        return spec
    return replace(
        spec,
        slots=EMBEDDING_SLOTS,
        kv_type=KVType.F16,
        speculation="off",
        pooling=wanted.pooling or choose_pooling(model, query.task),
    )
