"""Ranks models for a need and a machine, and predicts how each would run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import median
from typing import Literal

import msgspec
from msgspec.structs import replace

from ingle.models.fit.llama_cpp_fit import DEFAULT_SLOTS
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType

from ..base.load_spec import Quantize
from ..registry.engines import DEFAULT_ENGINE, all_engines, get_engine
from ..selection.model_placement import Placement, PlacementRequest, select
from .advice_request import AdviceRequest, Candidate, MeasuredSpeed
from .machine_capacity import MachineCapacity, corrected
from .option_score import batch_rate, quality_of, score_option
from .speed_prediction import PredictedSpeed, predict_speed

FILLED = 1000
"""Context length in tokens for which the speed of an answer is predicted."""
READING_SPEED = 5.0
"""Tokens per second; most people read no faster."""
_CONTEXTS = (16384, 8192, 4096, 2048)
_LEAST_BATCH = 10.0
"""Least total tokens per second for the need "many requests at once"."""

_ALTERNATIVES = 3


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A model and how it would be loaded; sizes in bytes, speeds in tokens per second.

    `quality` counts doublings of size, less the loss from quantisation: it compares models of one
    kind and is not a measurement. `host_bytes` and `gpu_bytes` are the memory needed. `speed` is
    null if too little is known of the machine; `batch` is the total rate of eight concurrent
    answers. `why` explains the choice of engine, `why_not` why the best option is preferred to this
    one.
    """

    model: str
    quantization: str
    installed: bool
    exact: bool
    for_code: bool
    parameters: int
    download: int
    engine: str
    device: Literal["gpu", "cpu"]
    gpu_layers: int
    layers: int
    context: int
    kv_type: KVType
    quantize: Quantize
    draft: str | None
    host_bytes: int
    gpu_bytes: int
    fits: bool
    speed: PredictedSpeed | None
    batch: float
    quality: float
    worth: float
    why: str
    memory: list[str] = []
    """Breakdown of the bytes, one line for each kind of memory."""

    why_not: str = ""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The best option (null if nothing fits), and alternatives with the reasons against them."""

    best: Option | None
    alternatives: list[Option] = []


def advise(
    capacity: MachineCapacity, candidates: Iterable[Candidate], request: AdviceRequest
) -> Advice:
    """Rank all candidates; those that do not fit into memory come last."""
    options = [
        option
        for candidate in candidates
        if _suits(candidate, request)
        for option in options_for(capacity, candidate, request)
    ]
    ranked = sorted(options, key=lambda option: (-option.worth, option.host_bytes, option.model))
    fitting = [option for option in ranked if option.fits]
    usable = [option for option in fitting if _fast_enough(option, request)]
    best = usable[0] if usable else max(fitting, key=_decode_speed, default=None)
    if best is None:
        smallest = _each_model(sorted(options, key=_memory), [])
        return Advice(best=None, alternatives=smallest[:_ALTERNATIVES])
    others = _each_model([*usable, *fitting], [best.model])[: _ALTERNATIVES - 1]
    known = [best.model, *(option.model for option in others)]
    larger = [
        option
        for option in sorted(ranked, key=_memory)
        if not option.fits and option.quality > best.quality
    ]
    others += _each_model(larger, known)[: _ALTERNATIVES - len(others)]
    explained = (replace(option, why_not=why_not(option, best, capacity)) for option in others)
    return Advice(best=best, alternatives=list(explained))


def options_for(
    capacity: MachineCapacity, candidate: Candidate, request: AdviceRequest
) -> Iterator[Option]:
    """Yield every sensible way to load one model."""
    is_gguf = candidate.costs.shape is not None
    can_run = (capacity.llama_works or capacity.has_own) if is_gguf else capacity.has_torch
    if not can_run:
        return
    if request.need == "memory" and capacity.budget.llama_offloads and is_gguf:
        # PyTorch alone takes more memory than many models.
        capacity = dataclasses.replace(capacity, has_own=False)
    for load in _loads(capacity, candidate, request):
        yield _option(capacity, candidate, load, request)


def calibrate(
    capacity: MachineCapacity, candidates: Iterable[Candidate], measured: Sequence[MeasuredSpeed]
) -> MachineCapacity:
    """Return the capacity with its rates corrected by the median of the measured speeds."""
    by_name = {candidate.name: candidate for candidate in candidates}
    for on_gpu in (False, True):
        ratios: list[float] = []
        names: list[str] = []
        for speed in measured:
            candidate = by_name.get(speed.name)
            if candidate is None or speed.on_gpu != on_gpu or speed.decode <= 0:
                continue
            options = list(options_for(capacity, candidate, AdviceRequest(context=4096)))
            found = next((o for o in options if (o.device == "gpu") == on_gpu and o.speed), None)
            if found is not None and found.speed is not None:
                ratios.append(speed.decode / _decode_at(found.speed, found.context, speed.tokens))
                names.append(f"{speed.name} at {speed.decode:.1f} tokens/s")
        if ratios:
            source = f"corrected by {', '.join(names)}, measured here"
            capacity = corrected(capacity, median(ratios), source, on_gpu=on_gpu)
    return capacity


def _decode_at(speed: PredictedSpeed, context: int, tokens: int) -> float:
    """Return predicted tokens per second after `tokens` tokens; time per token grows linearly."""
    if not tokens or context <= FILLED:
        return speed.decode
    early, late = 1 / speed.decode, 1 / speed.decode_full
    return 1 / max(1e-9, early + (late - early) * (tokens - FILLED) / (context - FILLED))


def why_not(option: Option, best: Option, capacity: MachineCapacity) -> str:
    """Return one sentence on why `best` is preferred to `option`."""
    if not option.fits:
        short = [
            f"{needed / 1e9:.1f} GB of {what}, of which {max(0, free) / 1e9:.1f} GB can be had"
            for what, needed, free in (
                ("memory", option.host_bytes, capacity.budget.host),
                ("the GPU", option.gpu_bytes, capacity.budget.gpu or 0),
            )
            if needed > free
        ]
        return f"It needs {' and '.join(short)}."
    parts: list[str] = []
    if option.quality < best.quality - 0.05:
        parts.append(_worse(option, best))
    if option.speed and best.speed and option.speed.decode < 0.95 * best.speed.decode:
        times = best.speed.decode / option.speed.decode
        parts.append(f"it writes {times:.1f} times slower")
    more = option.host_bytes + option.gpu_bytes - best.host_bytes - best.gpu_bytes
    if more > 0.1e9:
        parts.append(f"it takes {more / 1e9:.1f} GB more")
    said = " and ".join(parts) or "it has nothing that the first choice lacks"
    return said[:1].upper() + said[1:] + "."


def _worse(option: Option, best: Option) -> str:
    if option.parameters < 0.9 * best.parameters:
        return f"it has {option.parameters / best.parameters:.0%} of the weights"
    if best.for_code and not option.for_code:
        return "it is not made for code"
    if option.for_code and not best.for_code:
        return "it is made for code"
    return f"{option.quantization or 'its form'} keeps less of the weights' precision"


def _suits(candidate: Candidate, request: AdviceRequest) -> bool:
    if request.task == "embed":
        return candidate.embeds
    if candidate.embeds or not candidate.chat:
        return False
    return not request.context or candidate.costs.context >= request.context


def _fast_enough(option: Option, request: AdviceRequest) -> bool:
    """Return whether it generates at reading speed, if the need involves reading."""
    if request.task == "embed" or option.speed is None:
        return True
    if request.need == "batch":
        return option.batch >= _LEAST_BATCH
    return option.speed.decode >= READING_SPEED


def _decode_speed(option: Option) -> float:
    return option.speed.decode if option.speed else 0.0


def _memory(option: Option) -> int:
    return option.host_bytes + option.gpu_bytes


def _each_model(options: Iterable[Option], taken: Iterable[str]) -> list[Option]:
    """Return the first option of each model that is not in `taken`."""
    seen, found = set(taken), list[Option]()
    for option in options:
        if option.model not in seen:
            seen.add(option.model)
            found.append(option)
    return found


def _loads(
    capacity: MachineCapacity, candidate: Candidate, request: AdviceRequest
) -> Iterator[PlacementRequest]:
    """Yield the loads of a candidate that are compared."""
    costs = candidate.costs
    own = capacity.has_own and candidate.runs_on_own and costs.config is not None
    must, engine = costs.shape is None, DEFAULT_ENGINE
    if must or own:
        engine = next(each.name for each in all_engines() if each.knows(costs))
    contexts, kv_types = [costs.context], [KVType.F16]
    quantizes: list[Quantize] = ["none"]
    if request.task != "embed":
        shorter = sorted({min(context, costs.context) for context in _CONTEXTS}, reverse=True)
        contexts = [request.context] if request.context else shorter
        kv_types = [KVType.F16, KVType.Q8_0]
        if candidate.plain and capacity.has_own:
            quantizes.append("nf4")
    for context, kv_type, quantize in product(contexts, kv_types, quantizes):
        yield PlacementRequest(
            engine=engine, must=must, context=context, kv_type=kv_type, quantize=quantize
        )


def _option(
    capacity: MachineCapacity, candidate: Candidate, load: PlacementRequest, request: AdviceRequest
) -> Option:
    costs, budget = candidate.costs, capacity.budget
    found = select(costs, budget, load)
    needs, filled = found.needs, min(FILLED, found.context)
    rates = capacity.cpu, capacity.gpu
    speed = predict_speed(
        costs, found, *rates, kv_type=load.kv_type, filled=filled, repacked=budget.repacked
    )
    quality = quality_of(candidate, load.quantize, load.kv_type, request.task)
    batch = batch_rate(speed, DEFAULT_SLOTS)
    return Option(
        model=candidate.name,
        quantization=candidate.quantization,
        installed=candidate.installed,
        exact=candidate.exact,
        for_code=candidate.codes,
        parameters=costs.parameters,
        download=0 if candidate.installed else costs.stored,
        engine=get_engine(found.engine).label,
        device=found.device,
        gpu_layers=_layers_on_gpu(found, costs.layers),
        layers=costs.layers,
        context=found.context,
        kv_type=load.kv_type,
        quantize=load.quantize,
        draft=candidate.draft if found.device == "gpu" else None,
        host_bytes=needs.host,
        gpu_bytes=needs.gpu,
        fits=needs.fits_in(MemoryNeeds(budget.host, budget.gpu or 0)),
        speed=speed,
        batch=batch,
        quality=quality,
        worth=score_option(quality, speed, batch, needs.total, found.context, request.need),
        why=found.reason,
        memory=_memory_parts(found, budget.gpu_name),
    )


def _memory_parts(found: Placement, gpu_name: str) -> list[str]:
    lines: list[str] = []
    for name, part in (("memory", found.estimate.host), (gpu_name, found.estimate.gpu)):
        if not part.total:
            continue
        amounts = (
            (part.weights, "of weights"),
            (part.kv, f"of keys and values for {found.context:,} tokens"),
            (part.compute, "for a step"),
            (part.runtime, "for the process"),
        )
        said = " + ".join(f"{amount / 1e6:,.0f} MB {what}" for amount, what in amounts if amount)
        lines.append(f"{name}: {said} = {part.total / 1e9:.2f} GB")
    return lines


def _layers_on_gpu(found: Placement, layers: int) -> int:
    if found.device == "cpu":
        return 0
    return layers if found.gpu_layers < 0 else max(0, found.gpu_layers - 1)
