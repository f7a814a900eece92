"""`advise`: for a need and a machine, which model to run and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import msgspec

from ingle.models.fit.llama_cpp_fit import DEFAULT_SLOTS
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType

from ..base.load_spec import Quantize
from ..registry.engines import DEFAULT_ENGINE, all_engines, get_engine
from ..selection.model_placement import Placement, PlacementRequest, select
from .advice_request import AdviceRequest, Candidate, MeasuredSpeed
from .machine_capacity import MachineCapacity, corrected
from .option_score import batch_rate, quality_of, score_option
from .speed_prediction import Speed, predict_speed

FILLED = 1000
"""Tokens in the context for which an answer's speed is told."""
READING_SPEED = 5.0
"""Tokens a second: most people read no quicker."""
_CONTEXTS = (16384, 8192, 4096, 2048)
_LEAST_BATCH = 10.0
"""Tokens a second of all answers together that many requests should make."""
_KV_TYPES = (KVType.F16, KVType.Q8_0)
_ALTERNATIVES = 3


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and how it would be run; bytes and tokens a second.

    `quality` counts doublings of size, less what the quantisation costs: a yardstick for models of
    one kind, not a measurement. `needs` are of the machine's memory and of the GPU's. `speed` is
    null where too little is known of the machine, `batch` counts the tokens of eight answers at
    once. `why` says how the engine was chosen, `why_not` what speaks for the first choice instead.
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
    speed: Speed | None
    batch: float
    quality: float
    worth: float
    why: str
    memory: list[str] = []
    """What the bytes are made of, a line for each kind of memory."""

    why_not: str = ""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The best option, null where nothing fits, with others and why not those."""

    best: Option | None
    alternatives: list[Option] = []


@dataclass(frozen=True)
class _Way:
    """How a candidate is to be loaded."""

    context: int
    kv_type: KVType
    quantize: Quantize


def advise(
    site: MachineCapacity, candidates: Iterable[Candidate], request: AdviceRequest
) -> Advice:
    """Weigh all candidates; what would not fit into the memory there is comes second at best."""
    options = [
        option
        for candidate in candidates
        if _suits(candidate, request)
        for option in weigh(site, candidate, request)
    ]
    ranked = sorted(options, key=lambda option: (-option.worth, option.host_bytes, option.model))
    fitting = [option for option in ranked if option.fits]
    usable = [option for option in fitting if _quick_enough(option, request)]
    best = next(iter(usable or sorted(fitting, key=_slowness)), None)
    if best is None:
        return Advice(
            best=None, alternatives=_each_model(sorted(options, key=_memory), [])[:_ALTERNATIVES]
        )
    others = _each_model([*usable, *fitting], [best.model])[: _ALTERNATIVES - 1]
    known = [best.model, *(option.model for option in others)]
    larger = [
        option
        for option in sorted(ranked, key=_memory)
        if not option.fits and option.quality > best.quality
    ]
    others += _each_model(larger, known)[: _ALTERNATIVES - len(others)]
    return Advice(
        best=best,
        alternatives=[
            msgspec.structs.replace(option, why_not=why_not(option, best, site))
            for option in others
        ],
    )


def weigh(site: MachineCapacity, candidate: Candidate, request: AdviceRequest) -> Iterator[Option]:
    """Every sensible way to run one model."""
    if candidate.costs.shape is None and not site.has_torch:
        return
    if candidate.costs.shape is not None and not site.llama_works and not site.has_own:
        return
    if request.need == "memory" and site.room.llama_offloads and candidate.costs.shape is not None:
        site = replace(site, has_own=False)  # PyTorch alone takes more than many a model
    for way in _ways(site, candidate, request):
        yield _option(site, candidate, way, request)


def calibrate(
    site: MachineCapacity, candidates: Iterable[Candidate], measured: Sequence[MeasuredSpeed]
) -> MachineCapacity:
    """The site with rates set right by what models made on it; the median counts."""
    by_name = {candidate.name: candidate for candidate in candidates}
    for on_gpu in (False, True):
        ratios: list[float] = []
        names: list[str] = []
        for speed in measured:
            candidate = by_name.get(speed.name)
            if candidate is None or speed.on_gpu != on_gpu or speed.decode <= 0:
                continue
            options = list(weigh(site, candidate, AdviceRequest(context=4096)))
            found = next((o for o in options if (o.device == "gpu") == on_gpu and o.speed), None)
            if found is not None and found.speed is not None:
                ratios.append(speed.decode / _decode_at(found.speed, found.context, speed.tokens))
                names.append(f"{speed.name} at {speed.decode:.1f} tokens/s")
        if ratios:
            source = f"corrected by {', '.join(names)}, measured here"
            site = corrected(site, median(ratios), source, on_gpu=on_gpu)
    return site


def _decode_at(speed: Speed, context: int, tokens: int) -> float:
    """Predicted tokens a second behind so many tokens: seconds grow with them evenly."""
    if not tokens or context <= FILLED:
        return speed.decode
    early, late = 1 / speed.decode, 1 / speed.decode_full
    return 1 / max(1e-9, early + (late - early) * (tokens - FILLED) / (context - FILLED))


def why_not(option: Option, best: Option, site: MachineCapacity) -> str:
    """In one sentence, what speaks for the best one."""
    if not option.fits:
        short = [
            f"{needed / 1e9:.1f} GB of {what}, of which {max(0, free) / 1e9:.1f} GB can be had"
            for what, needed, free in (
                ("memory", option.host_bytes, site.room.host),
                ("the GPU", option.gpu_bytes, site.room.gpu or 0),
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


def _quick_enough(option: Option, request: AdviceRequest) -> bool:
    """At reading speed, where somebody reads."""
    if request.task == "embed" or option.speed is None:
        return True
    if request.need == "batch":
        return option.batch >= _LEAST_BATCH
    return option.speed.decode >= READING_SPEED


def _slowness(option: Option) -> float:
    return -option.speed.decode if option.speed else 0.0


def _memory(option: Option) -> int:
    return option.host_bytes + option.gpu_bytes


def _each_model(options: Iterable[Option], taken: Iterable[str]) -> list[Option]:
    """The first option of each model that is not taken."""
    seen, found = set(taken), list[Option]()
    for option in options:
        if option.model not in seen:
            seen.add(option.model)
            found.append(option)
    return found


def _ways(site: MachineCapacity, candidate: Candidate, request: AdviceRequest) -> Iterator[_Way]:
    trained = candidate.costs.context
    if request.task == "embed":
        yield _Way(trained, KVType.F16, "none")
        return
    contexts = (
        [request.context]
        if request.context
        else sorted({min(context, trained) for context in _CONTEXTS}, reverse=True)
    )
    quantizes: list[Quantize] = ["none"]
    if candidate.plain and site.has_own:
        quantizes.append("nf4")
    for context in contexts:
        for kv_type in _KV_TYPES:
            for quantize in quantizes:
                yield _Way(context, kv_type, quantize)


def _option(
    site: MachineCapacity, candidate: Candidate, way: _Way, request: AdviceRequest
) -> Option:
    costs, room = candidate.costs, site.room
    found = select(costs, room, _wanted(site, candidate, way))
    needs, filled = found.needs, min(FILLED, found.context)
    rates = site.cpu, site.gpu
    speed = predict_speed(
        costs, found, *rates, kv_type=way.kv_type, filled=filled, repacked=room.repacked
    )
    quality = quality_of(costs, way.quantize, way.kv_type, candidate, request)
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
        kv_type=way.kv_type,
        quantize=way.quantize,
        draft=candidate.draft,
        host_bytes=needs.host,
        gpu_bytes=needs.gpu,
        fits=needs.fits_in(MemoryNeeds(room.host, room.gpu or 0)),
        speed=speed,
        batch=batch,
        quality=quality,
        worth=score_option(quality, speed, batch, needs.total, found.context, request.need),
        why=found.reason,
        memory=_memory_parts(found, room.gpu_name),
    )


def _wanted(site: MachineCapacity, candidate: Candidate, way: _Way) -> PlacementRequest:
    costs = candidate.costs
    own = site.has_own and candidate.runs_on_own and costs.config is not None
    must, engine = costs.shape is None, DEFAULT_ENGINE
    if must or own:
        engine = next(each.name for each in all_engines() if each.knows(costs))
    return PlacementRequest(
        engine=engine,
        must=must,
        context=way.context,
        kv_type=way.kv_type,
        quantize=way.quantize,
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
