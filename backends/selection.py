"""Which engine runs a model, and with what settings: pure decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ingle.models.errors import UnsupportedModel
from ingle.models.fit import check_kv_type
from ingle.models.gguf import GGUFHeader
from ingle.models.kv_type import KVType

from .base import Backend, EngineKind, LoadSpec, SpeculationKind
from .process import WorkerProcess

_ENCODERS = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "t5encoder", "clip"})


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
) -> LoadSpec:
    """How to load a GGUF file; `context` is cut to what the model was trained for.

    Raises `UnsupportedModel` for models that cannot generate text, or not with this `kv_type`.
    """
    if header.architecture in _ENCODERS:
        raise UnsupportedModel(
            f"{path.name} is an encoder ({header.architecture}), which cannot chat.",
            hint="Choose a model that generates text.",
        )
    check_kv_type(header, kv_type)
    return LoadSpec(
        engine=EngineKind.LLAMA_CPP,
        path=str(path),
        context=min(context, header.context) if header.context else context,
        slots=slots,
        threads=threads,
        gpu_layers=gpu_layers,
        kv_type=kv_type,
        flash_attention=flash_attention,
        mmap=mmap,
        mlock=mlock,
        chat_template=chat_template,
        speculation=speculation,
        compute_lease=str(compute_lease) if compute_lease is not None else None,
    )


def create_backend(spec: LoadSpec) -> Backend:
    """A backend for the specification, not started yet."""
    return WorkerProcess(spec)
