"""Chooses engine, device, layers and context of a model from the memory available, with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingle.models.fit.llama_cpp_fit import (
    DRAFT_BATCH,
    GPUSplit,
    LoadParameters,
    MemoryEstimate,
    SplitEstimate,
    largest_context,
)
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.fit.paged_fit import head_features
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask

from ..base.load_spec import LoadSpec, Quantize
from ..registry.engines import DEFAULT_ENGINE, get_engine
from ..registry.model_costs import ModelCosts
from .placement_reason import SelectionWords, Why

_USEFUL_CONTEXT = 4096
"""Layers go to the CPU before a context without a request gets shorter than this."""
_FIRST_CONTEXT = 16384
"""The longest context without a request in the machine's own memory: llama.cpp touches all of its
cache at once, and few requests need more. A longer prompt has the model loaded with more."""
_LEAST_CONTEXT = 512
_CONTEXT_STEP = 256
_LEAST_SHARE = 8
"""A GPU that holds less than one in this many layers is not worth its overhead."""


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """Memory that a model may use, in bytes.

    `gpu` is free, or can be freed, on the GPU called `gpu_name`; None if it is unknown,
    0 without a GPU. So are `other_gpus` on those behind it. `llama_offloads`: llama.cpp was built
    for it. A `unified` GPU computes in the machine's memory. `repacked` are the tensor types that
    llama.cpp copies for the processor. The GPU may have products of FP8 (`has_fp8`).
    """

    host: int
    gpu: int | None = 0
    other_gpus: tuple[int, ...] = ()
    gpu_name: str = ""
    llama_offloads: bool = False
    unified: bool = False
    repacked: frozenset[str] = frozenset()
    has_fp8: bool = False

    @property
    def needs(self) -> MemoryNeeds:
        """What may be taken of each kind."""
        return MemoryNeeds(self.host, self.gpu or 0, self.other_gpus)


@dataclass(frozen=True, kw_only=True)
class PlacementRequest:
    """The settings of a load on which its placement depends.

    `engine` is the best one that can run the model; unless it `must`, its fallback runs what it has
    no GPU memory for. `why_not_preferred` is the reason why a better engine cannot run the model. A
    requested `context` gets shorter only if it `may_shrink`; without a request it has at least
    `least_context` tokens. `gpu_batch` bounds the tokens of a step of an engine that has the whole
    model on the GPU.
    """

    engine: str = DEFAULT_ENGINE
    must: bool = False
    why_not_preferred: str = ""
    context: int | None = None
    least_context: int = 0
    max_context: int = 0
    may_shrink: bool = False
    gpu_layers: int = -1
    slots: int = 8
    batch: int = 512
    gpu_batch: int = 512
    kv_type: KVType = KVType.F16
    flash_attention: bool = True
    quantize: Quantize = "none"
    tensor_parallel: int = 1
    stages: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a model runs; `reason` is one sentence for display.

    `gpu_layers` is llama.cpp's count, which includes the output: -1 for all, 0 for none.
    """

    engine: str
    device: Literal["gpu", "cpu"]
    gpu_layers: int
    context: int
    batch: int
    estimate: SplitEstimate
    needs: MemoryNeeds
    reason: str
    layers: int
    cpu_experts: int = 0
    kv_type: KVType = KVType.F16
    stages: tuple[int, ...] = ()


def select(costs: ModelCosts, budget: MemoryBudget, wanted: PlacementRequest) -> Placement:
    """Return the requested engine if its share fits on the GPU, else its fallback or the CPU.

    A placement is returned even if the machine's memory is too small; its `needs` show how much is
    missing.
    """
    found = _Selector(_known(costs, budget), budget, wanted).select()
    return replace(found, stages=wanted.stages)


class _Selector:
    def __init__(self, costs: ModelCosts, budget: MemoryBudget, wanted: PlacementRequest) -> None:
        self._costs = costs
        self._room = budget
        self._wanted = wanted
        self._words = SelectionWords(costs.layers, budget.gpu_name)
        self._engine = get_engine(wanted.engine)
        default = wanted.engine == DEFAULT_ENGINE
        self._why_not_preferred = wanted.why_not_preferred if default else ""

    def select(self) -> Placement:
        if self._engine.splits_layers:
            found = self._on_split_gpu()
        else:
            found = self._on_whole_gpu()
            if found is None and not self._wanted.must and self._engine.fallback is not None:
                fallback = get_engine(self._engine.fallback)
                if fallback.knows(self._costs):
                    self._engine = fallback
                    found = self._on_split_gpu()
        return found if found is not None else self._on_cpu_shrunk()

    def _why_no_gpu(self) -> Why:
        if not self._room.gpu_name:
            return Why.NO_GPU
        if self._wanted.gpu_layers == 0:
            return Why.ASKED
        if not self._engine.uses_gpu:
            return Why.NO_CODE
        if get_engine(self._wanted.engine).splits_layers and not self._room.llama_offloads:
            return Why.NO_BUILD
        return Why.TOO_SMALL if self._room.llama_offloads else Why.TOO_LARGE_AND_NO_BUILD

    def _load(self, context: int, batch: int = 0) -> LoadParameters:
        wanted = self._wanted
        return LoadParameters(
            context=context,
            slots=wanted.slots,
            batch=batch or wanted.batch,
            kv_type=wanted.kv_type,
            flash_attention=wanted.flash_attention,
            repacked=frozenset() if self._room.llama_offloads else self._room.repacked,
            ranks=wanted.tensor_parallel,
            stages=wanted.stages,
        )

    @property
    def _asked(self) -> bool:
        return self._wanted.context is not None or self._wanted.least_context > 0

    def _context(self, budgets: Sequence[int], estimate: Callable[[int], SplitEstimate]) -> int:
        """Return the requested context, else the largest that takes half of `budgets` less weights.

        On a GPU that is at most the trained one, elsewhere `_FIRST_CONTEXT`. `budgets` are the
        memory of each GPU if the estimate has anything there, else the machine's.
        """
        wanted = self._wanted
        if wanted.context is not None:
            return self._bounded(max(wanted.context, wanted.least_context))

        def there(context: int) -> Sequence[MemoryEstimate]:
            found = estimate(context)
            return found.gpus if found.gpu.total else [found.host]

        most, shape = self._costs.context, self._costs.shape
        in_host_memory = self._room.unified or not estimate(_LEAST_CONTEXT).gpu.total
        if in_host_memory or (shape is not None and shape.task is not ModelTask.GENERATE):
            most = min(most, _FIRST_CONTEXT)
        for place, (budget, fixed) in enumerate(zip(budgets, there(_LEAST_CONTEXT), strict=False)):

            def cost(context: int, place: int = place) -> int:
                return there(context)[place].kv + there(context)[place].compute

            most = largest_context(most, (budget - fixed.weights - fixed.runtime) // 2, cost)
        return self._bounded(max(most, wanted.least_context))

    def _bounded(self, context: int) -> int:
        for limit in (self._costs.context, self._wanted.max_context):
            context = min(context, limit) if limit else context
        return context

    def _fits(self, needs: MemoryNeeds) -> bool:
        return needs.fits_in(self._room.needs)

    def _estimate(
        self,
        context: int,
        split: GPUSplit = GPUSplit(),  # noqa: B008
        batch: int = 0,
    ) -> SplitEstimate:
        load, quantize = self._load(context, batch), self._wanted.quantize
        host = self._room.host
        return self._engine.estimate(self._costs, load, split, host=host, quantize=quantize)

    def _on_whole_gpu(self) -> Placement | None:
        """All of the model on the GPU, or None if it is too large."""
        wanted, free = self._wanted, self._room.needs.gpus
        usable = self._engine.uses_gpu and not self._room.unified
        if wanted.gpu_layers == 0 or not free[0] or not usable:
            return None
        whole = GPUSplit(self._costs.layers + 1)

        def estimate(context: int) -> SplitEstimate:
            return self._estimate(context, whole, wanted.gpu_batch)

        context = self._gpu_context(free, estimate)
        found = estimate(context)
        if not wanted.must and not self._fits(found.needs):
            return None
        reason = self._words.on_gpus(found, free, wanted.stages, context)
        placed = self._placed(found, -1, context, reason)
        return replace(placed, batch=wanted.gpu_batch)

    def _on_cpu(self, limit: int | None = None) -> Placement:
        context = limit or self._context([self._room.host], self._estimate)
        found = self._estimate(context)
        reason = self._words.on_cpu(
            self._engine.title,
            self._why_no_gpu(),
            found.host.total,
            self._room.host,
            context,
            self._why_not_preferred,
        )
        return self._placed(found, 0, context, reason)

    def _on_split_gpu(self) -> Placement | None:
        """As much on the GPU as fits there: all, all but experts, some layers; or None."""
        wanted, budget = self._wanted, self._room
        if not (budget.llama_offloads and budget.gpu_name) or wanted.gpu_layers == 0:
            return None
        if budget.gpu is None:
            return self._left_to_llama()
        gpu = min(budget.gpu, budget.host) if budget.unified else budget.gpu
        whole = GPUSplit(self._costs.layers + 1)
        split = (
            GPUSplit(min(wanted.gpu_layers, whole.gpu_layers)) if wanted.gpu_layers > 0 else whole
        )
        context = self._gpu_context([gpu], lambda tokens: self._estimate(tokens, split))
        if wanted.gpu_layers < 0:
            found = self._largest_split(gpu, context)
            if found is None:
                return None
            split = found
        return self._split_placement(split, context, gpu)

    def _gpu_context(self, budgets: Sequence[int], estimate: Callable[[int], SplitEstimate]) -> int:
        context = self._context(budgets, estimate)
        return context if self._asked else self._bounded(max(context, _USEFUL_CONTEXT))

    def _largest_split(self, gpu: int, context: int) -> GPUSplit | None:
        """The best split whose GPU side takes at most `gpu` bytes."""
        layers = self._costs.layers
        shape = self._costs.shape
        assert shape is not None

        def fits(split: GPUSplit) -> bool:
            return self._estimate(context, split).gpu.total <= gpu

        candidates = [GPUSplit(layers + 1)]
        if any(layer.experts for layer in shape.layers):
            candidates += [GPUSplit(layers + 1, count) for count in range(1, layers + 1)]
        if shape.task is ModelTask.GENERATE:  # an embedder is small: all of it, or none
            least = 1 + max(1, layers // _LEAST_SHARE)
            candidates += [GPUSplit(count) for count in range(layers, least - 1, -1)]
        return next((split for split in candidates if fits(split)), None)

    def _split_placement(self, split: GPUSplit, context: int, gpu: int) -> Placement:
        found = self._estimate(context, split)
        needs = found.needs
        if self._room.unified:
            needs = MemoryNeeds(found.host.total + found.gpu.total)
        whole = split.gpu_layers > self._costs.layers
        words = self._words
        if whole and not split.cpu_experts:
            reason = words.on_gpu(found.gpu.total, gpu, context, self._why_not_preferred)
        else:
            reason = words.on_both(split, found, gpu, context, self._why_not_preferred)
        placed = self._placed(found, -1 if whole else split.gpu_layers, context, reason)
        return replace(placed, needs=needs, cpu_experts=split.cpu_experts)

    def _placed(
        self, found: SplitEstimate, gpu_layers: int, context: int, reason: str
    ) -> Placement:
        return Placement(
            engine=self._engine.name,
            device="gpu" if gpu_layers else "cpu",
            gpu_layers=gpu_layers,
            context=context,
            batch=self._wanted.batch,
            estimate=found,
            needs=found.needs,
            layers=self._costs.layers,
            reason=reason,
            kv_type=self._wanted.kv_type,
        )

    def _left_to_llama(self) -> Placement:
        """On a GPU whose free memory is unknown: llama.cpp tries, and `needs` are the host's."""
        found = self._on_cpu()
        return replace(
            found,
            device="gpu",
            gpu_layers=self._wanted.gpu_layers,
            reason=self._words.left_to_llama(found.context),
        )

    def _on_cpu_shrunk(self) -> Placement:
        """All on the CPU, with a shorter context if that makes it fit and is allowed."""
        found = self._on_cpu()
        if not (self._wanted.may_shrink and self._asked) or self._fits(found.needs):
            return found
        asked = context = found.context
        while context > _LEAST_CONTEXT:
            context = max(_LEAST_CONTEXT, context // 2 // _CONTEXT_STEP * _CONTEXT_STEP)
            smaller = self._on_cpu(context)
            if self._fits(smaller.needs):
                return replace(smaller, reason=self._words.shrunk(smaller.reason, asked))
        return found


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
    draft = _known(draft, budget)
    found = engine.estimate(draft, load, split, host=budget.host, quantize=quantize).needs
    return MemoryNeeds(found.total) if budget.unified else found


def head_needs(
    costs: ModelCosts, headed: ModelCosts, spec: LoadSpec, budget: MemoryBudget
) -> MemoryNeeds:
    """Return the bytes that a head adds to a model, whose costs with it are `headed`."""
    engine = get_engine(spec.engine)
    load = LoadParameters(
        context=spec.context, slots=spec.slots, batch=spec.batch, kv_type=spec.kv_type
    )
    whole, alone = (
        engine.estimate(
            _known(each, budget),
            load,
            GPUSplit(spec.gpu_layers),
            host=budget.host,
            quantize=spec.quantize,
        ).needs
        for each in (headed, costs)
    )
    added = whole - alone
    width = 0 if headed.config is None else headed.config.hidden_size
    features = head_features(width, load, on_gpu=spec.gpu_layers != 0)
    added += MemoryNeeds(0, features) if spec.gpu_layers else MemoryNeeds(features)
    return MemoryNeeds(added.host + added.gpu) if budget.unified else added


def _known(costs: ModelCosts, budget: MemoryBudget) -> ModelCosts:
    """The costs on the machine of the budget."""
    return costs if budget.has_fp8 else costs.without_fp8()
