"""What a draft model takes in the process of the model that it guesses for."""

from __future__ import annotations

from ingle.models.fit.llama_cpp_fit import DRAFT_BATCH, GPUSplit, LoadParameters
from ingle.models.fit.memory_needs import MemoryNeeds

from ..base.load_spec import EngineKind, LoadSpec
from .model_costs import ModelCosts
from .model_placement import MemoryBudget


def draft_needs(draft: ModelCosts, spec: LoadSpec, room: MemoryBudget) -> MemoryNeeds:
    """Bytes of both kinds beside those of the model itself, which is loaded by `spec`.

    The draft is loaded in the same way: on as many layers of the GPU, or all of its own.
    """
    on_gpu = spec.gpu_layers != 0 and bool(room.gpu)
    load = LoadParameters(
        context=spec.context,
        slots=spec.slots,
        batch=min(spec.batch, DRAFT_BATCH),
        kv_type=spec.kv_type,
        flash_attention=spec.flash_attention != "off",
        repacked=frozenset() if room.llama_offloads else room.repacked,
        own_process=False,
    )
    if spec.engine is EngineKind.CUDA and draft.config is not None:
        if on_gpu:
            return draft.on_own_gpu(load, spec.quantize).needs
        return draft.on_own_cpu(load, room.host, spec.quantize).needs
    if draft.shape is None:  # a folder cannot guess for a file; the worker will say so
        return MemoryNeeds()
    layers = spec.gpu_layers if spec.gpu_layers >= 0 else draft.layers + 1
    found = draft.on_llama(load, GPUSplit(layers if on_gpu else 0)).needs
    return MemoryNeeds(found.total) if room.unified else found
