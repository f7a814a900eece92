"""The memory of a draft model in the process of the model that it drafts for."""

from __future__ import annotations

from ingle.models.fit.llama_cpp_fit import DRAFT_BATCH, GPUSplit, LoadParameters
from ingle.models.fit.memory_needs import MemoryNeeds

from ..base.load_spec import LoadSpec
from ..registry.engines import DEFAULT_ENGINE, get_engine
from ..registry.model_costs import ModelCosts
from .model_placement import MemoryBudget


def draft_needs(draft: ModelCosts, spec: LoadSpec, budget: MemoryBudget) -> MemoryNeeds:
    """Return the bytes that the draft adds to the needs of the model loaded by `spec`.

    The draft is loaded in the same way: on as many layers of the GPU, or all of its own.
    """
    on_gpu = spec.gpu_layers != 0 and bool(budget.gpu)
    load = LoadParameters(
        context=spec.context,
        slots=spec.slots,
        batch=min(spec.batch, DRAFT_BATCH),
        kv_type=spec.kv_type,
        flash_attention=spec.flash_attention != "off",
        repacked=frozenset() if budget.llama_offloads else budget.repacked,
        own_process=False,
    )
    engine = get_engine(spec.engine)
    if not engine.knows(draft):
        engine = get_engine(DEFAULT_ENGINE)
    if not engine.knows(draft):  # a folder cannot draft for a file; the worker reports it
        return MemoryNeeds()
    layers = spec.gpu_layers if spec.gpu_layers >= 0 else draft.layers + 1
    split, quantize = GPUSplit(layers if on_gpu else 0), spec.quantize
    found = engine.estimate(draft, load, split, host=budget.host, quantize=quantize).needs
    return MemoryNeeds(found.total) if budget.unified else found
