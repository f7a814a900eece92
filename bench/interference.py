"""Measures how long a running answer pauses while another request's long prompt is prefilled."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from machine import median, save

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.scheduling.prefill_budget import ChunkBudget
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

CONTEXT = 8192
PROMPT_TOKENS = 3000
BEFORE = 20


class WholeSteps(ChunkBudget):
    """The behaviour of engines without such a budget: a prompt fills the whole step."""

    def limit(self, *, short: bool) -> int:
        """Prompt tokens for the next step, whichever sequence waits."""
        return super().limit(short=False)


def measure(
    runner: LlamaModelRunner, *, budget: type[ChunkBudget], seed: int
) -> tuple[float, float]:
    """The longest pause of the running answer, and the other's time to its first token."""
    engine = Engine(runner)
    engine.scheduler._chunks = budget(runner.max_batch_tokens)  # pyright: ignore[reportPrivateUsage]
    greedy = SamplingParams(temperature=0)
    answer = Sequence("answer", 0, [1, 4093, 198], greedy, max_tokens=2000, ignore_eos=True)
    answer.arrived_at -= 60  # requests made together may interrupt each other for longer
    engine.add(answer)
    while answer.num_generated < BEFORE:
        engine.step()
    tokens = [100 + (seed * 7919 + i * 104729) % 40000 for i in range(PROMPT_TOKENS)]
    prompt = Sequence("prompt", 0, tokens, greedy, max_tokens=1)
    engine.add(prompt)
    longest, last = 0.0, time.perf_counter()
    while prompt.finish_reason is None:
        engine.step()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest, prompt.first_token_at - prompt.arrived_at


def main() -> None:
    """Measure both ways in turn; print; with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    spec = LoadSpec(engine="llama.cpp", path=str(arguments.model), context=CONTEXT)
    runner = LlamaModelRunner(spec)
    figures: dict[str, list[float]] = {}
    measure(runner, budget=ChunkBudget, seed=0)
    for seed in range(1, arguments.rounds + 1):
        for name, budget in (("bounded", ChunkBudget), ("whole_steps", WholeSteps)):
            pause, first = measure(runner, budget=budget, seed=seed)
            figures.setdefault(f"{name}_longest_pause_seconds", []).append(pause)
            figures.setdefault(f"{name}_first_token_seconds", []).append(first)
    report = {name: round(median(values), 3) for name, values in figures.items()}
    pauses = report["bounded_longest_pause_seconds"] / report["whole_steps_longest_pause_seconds"]
    firsts = report["bounded_first_token_seconds"] / report["whole_steps_first_token_seconds"]
    for name, value in report.items():
        print(f"{name:34} {value:8.3f}")
    print(f"{'pause, bounded over whole steps':34} {pauses:8.2f}")
    print(f"{'first token, the same':34} {firsts:8.2f}")
    if arguments.save:
        ratios = {"longest_pause": round(pauses, 3), "first_token": round(firsts, 3)}
        facts: dict[str, object] = {
            "model": arguments.model.name,
            "prompt_tokens": PROMPT_TOKENS,
            "rounds": arguments.rounds,
            "seconds": report,
            "ratios": ratios,
        }
        print(save("interference", facts))


if __name__ == "__main__":
    if "GOMP_SPINCOUNT" not in os.environ:
        os.execve(
            sys.executable, [sys.executable, *sys.argv], os.environ | {"GOMP_SPINCOUNT": "1000"}
        )
    main()
