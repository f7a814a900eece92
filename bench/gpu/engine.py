"""Measures the whole engine on models of Llama-3's shapes: tokens/s, prefill, memory and energy.

Weights are random, so texts are meaningless; the cost of a step does not depend on that. The
acceptance rate of a draft model does, so it is set.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from gpu.agreeing_draft import AgreeingDraft
from gpu.energy import EnergyMeter
from gpu.random_model import all_bf16, all_nf4, q4_k_m
from gpu.session import Session, Skipped
from gpu.synthetic import EIGHT_B, ONE_B, TINIER, TINY, source, spec

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.model_drafter import ModelDrafter
from ingle.backends.engine.speculation.step_costs import StepCosts, measure_steps
from ingle.models.config.model_config import ModelConfig

KINDS: dict[str, Callable[[str], str]] = {"Q4_K_M": q4_k_m, "NF4": all_nf4, "bfloat16": all_bf16}
STREAMS = (1, 4, 16, 64)
PROMPT, ANSWER, LONG_PROMPT = 128, 96, 4096
AGREEMENTS = ((0.6, False), (0.6, True), (0.8, True))
"""Of drafts, and whether both models recorded their steps ahead, as an idle worker does."""
NEEDED_BYTES = 30 << 30


def run(session: Session) -> dict[str, object]:
    """Measure each kind of weights, and a draft model with the first."""
    result: dict[str, Any] = {"models": [], "beside": [], "drafts": [], "skipped": []}
    if session.free_memory < NEEDED_BYTES:
        raise Skipped(f"there are less than {NEEDED_BYTES >> 30} GiB of free memory")
    for kind in KINDS:
        if session.seconds_left < 40:
            result["skipped"].append(f"{kind}: no time was left")
            continue
        runner = _open(session, kind)
        try:
            result["models"].append({"kind": kind, **_model(session, runner)})
            if kind == "Q4_K_M":
                result["drafts"] = _drafts(session, runner)
        finally:
            runner.close()
    if session.seconds_left < 60:
        result["skipped"].append("draws beside recorded steps: no time was left")
    else:
        result["beside"] = _beside(session)
    return result


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines: list[str] = []
    for model in result["models"]:
        gib = model["weights_bytes"] / 2**30
        lines.append(
            f"{model['kind']}: {gib:.2f} GiB of weights, a prompt of {model['prompt']['tokens']} "
            f"tokens {model['prompt']['tokens_a_second']} tokens/s"
        )
        lines += [
            f"  {row['streams']:>2} streams: {row['tokens_a_second']:>8} tokens/s, step "
            f"{row['step_ms']} ms, {row['joules_a_token']} J a token"
            for row in model["decode"]
        ]
    lines += [
        f"Q4_K_M, inputs sent and tokens drawn beside recorded steps: {row['streams']} streams, "
        f"{row['tokens_a_second']} tokens/s, step {row['step_ms']} ms"
        for row in result["beside"]
    ]
    lines += [
        f"1B drafts, agreeing to {row['agreement']}, "
        f"{'' if row['recorded_ahead'] else 'not '}recorded ahead: {row['tokens_a_second']} "
        f"tokens/s, longest step {row['longest_ms']} ms, "
        f"{row['accepted']} of {row['drafted']} accepted"
        for row in result["drafts"]
    ]
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _open(session: Session, kind: str) -> CudaModelRunner:
    streams = _streams(session)
    how = spec(
        session,
        context=_scaled(session, 8192),
        slots=max(streams),
        capacity=_scaled(session, 32768),
        batch=2048,
    )
    runner = CudaModelRunner(how, source=source(_large(session), session.device, KINDS[kind]))
    runner.can_run_ahead &= session.overlap
    return runner


def _beside(session: Session) -> list[dict[str, Any]]:
    """The first model's decoding without `records_draws`, to compare with."""
    CudaModelRunner.records_draws = False
    try:
        runner = _open(session, next(iter(KINDS)))
        try:
            return [_decode(session, runner, count) for count in _streams(session)]
        finally:
            runner.close()
    finally:
        CudaModelRunner.records_draws = True


def _model(session: Session, runner: CudaModelRunner) -> dict[str, Any]:
    info = runner.info()
    memory = None if session.on_cpu else torch.cuda.max_memory_allocated()
    return {
        "weights_bytes": info.weights_bytes,
        "kv_bytes": info.kv_bytes,
        "compute_bytes": info.compute_bytes,
        "peak_bytes": memory,
        "prompt": _prompt(session, runner),
        "decode": [_decode(session, runner, count) for count in _streams(session)],
    }


def _prompt(session: Session, runner: CudaModelRunner) -> dict[str, Any]:
    """Until the first token of a long prompt, which is the second one of its kind."""
    tokens = _scaled(session, LONG_PROMPT)
    times: list[float] = []
    for seed in range(3):
        engine = Engine(runner)
        engine.add(_sequence(runner, seed, tokens, 1))
        began = time.perf_counter()
        while engine.has_work:
            engine.step()
        times.append(time.perf_counter() - began)
    seconds = min(times[1:])
    return {"tokens": tokens, "ms": _ms(seconds), "tokens_a_second": round(tokens / seconds, 1)}


def _decode(
    session: Session,
    runner: CudaModelRunner,
    streams: int,
    speculation: AdaptiveSpeculator | None = None,
) -> dict[str, Any]:
    """Steady decoding: from when all prompts were read to when the first answer ends."""
    engine = Engine(runner, speculation)
    answer = _scaled(session, ANSWER)
    sequences = [
        _sequence(runner, seed, _scaled(session, PROMPT), answer) for seed in range(streams)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while any(sequence.num_generated < 3 for sequence in sequences):
        engine.step()
    before, meter, began = _said(sequences), EnergyMeter(), time.perf_counter()
    steps: list[float] = []
    while all(sequence.num_generated < answer - 2 for sequence in sequences):
        step_began = time.perf_counter()
        engine.step()
        steps.append(time.perf_counter() - step_began)
    seconds, said, joules = time.perf_counter() - began, _said(sequences) - before, meter.joules()
    while engine.has_work:
        engine.step()
    gauges = engine.gauges()
    return {
        "streams": streams,
        "tokens_a_second": round(said / seconds, 1),
        "step_ms": _ms(statistics.median(steps)),
        "longest_ms": _ms(max(steps)),
        "joules_a_token": None if joules is None else round(joules / said, 4),
        "drafted": gauges.drafted_tokens_total,
        "accepted": gauges.accepted_tokens_total,
    }


def _drafts(session: Session, runner: CudaModelRunner) -> list[dict[str, Any]]:
    """Measure one stream with a draft model of given acceptance rates."""
    costs, draft_costs = StepCosts(), StepCosts()
    known = _sequence(runner, 0, _scaled(session, PROMPT), _scaled(session, ANSWER))
    engine = Engine(runner)
    engine.add(known)
    while engine.has_work:
        engine.step()
    how = spec(session, context=_scaled(session, 2048), slots=1, capacity=0, batch=512)
    small = source(TINIER if session.on_cpu else ONE_B, session.device, q4_k_m, seed=99)
    draft = AgreeingDraft(how, runner.tokenizer.vocab_size, small, known.token_ids)
    sizes = (1, 1, 2, 3, 4, 6, 8)
    measure_steps(runner, costs, sizes)
    measure_steps(draft, draft_costs, (1, 1))
    rows: list[dict[str, Any]] = []
    try:
        for agreement, ahead in AGREEMENTS:
            while ahead and (runner.prepare_step() or draft.prepare_step()):
                continue
            draft.agreement = agreement
            drafter = ModelDrafter(draft, draft_costs)
            speculation = AdaptiveSpeculator(context=runner.context, costs=costs, model=drafter)
            figures = _decode(session, runner, 1, speculation)
            rows.append({"agreement": agreement, "recorded_ahead": ahead, **figures})
    finally:
        draft.close()
    return rows


def _sequence(runner: CudaModelRunner, seed: int, tokens: int, answer: int) -> Sequence:
    generator = torch.Generator().manual_seed(seed)
    size = runner.tokenizer.vocab_size
    prompt = torch.randint(0, size, (tokens,), generator=generator).numpy().tolist()
    params = SamplingParams(temperature=0.0)
    return Sequence("bench", seed, prompt, params, max_tokens=answer, ignore_eos=True)


def _said(sequences: list[Sequence]) -> int:
    return sum(sequence.num_generated for sequence in sequences)


def _large(session: Session) -> ModelConfig:
    return TINY if session.on_cpu else EIGHT_B


def _streams(session: Session) -> tuple[int, ...]:
    return STREAMS[:2] if session.on_cpu else STREAMS


def _scaled(session: Session, tokens: int) -> int:
    """On a CPU all is tried, but less of it."""
    return tokens // 8 if session.on_cpu else tokens


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
