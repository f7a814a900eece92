"""Whether a local model helps the detectors: its opinion on the prompts that they let go.

PYTHONPATH=bench python bench/privacy/judge.py MODEL.gguf [--save]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from functools import partial
from pathlib import Path

from machine import median, save
from topics import own_sets

from ingle.backends.base.backend import stream_events
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.selection.load_spec_builder import complete_spec, describe
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.routing.detectors.natural_language.passage_detector import PassageDetector
from ingle.daemon.routing.detectors.natural_language.passage_network import PassageNetwork
from ingle.daemon.routing.inspection.privacy_judge import is_judged_private

PROMPTS = 60


async def measure(path: Path, prompts: int) -> dict[str, object]:
    """The judge alone, and beside the network, on some prompts of each of our sets."""
    source = random.Random(7)
    passages = PassageDetector(PassageNetwork())
    wanted = LoadSpec(engine="llama.cpp", path=str(path), context=2048, slots=1)
    spec = complete_spec(wanted, describe(path))
    backend = WorkerProcess(spec)
    await backend.start()
    figures: dict[str, object] = {"model": path.name}
    times: list[float] = []
    try:
        for name in ("sensitive", "harmless"):
            texts = [
                prompt
                for one in own_sets()
                if one.sensitive == (name == "sensitive")
                for group in one.groups
                for prompt in group
            ]
            chosen = source.sample(texts, prompts)
            kept = alone = without = 0
            for text in chosen:
                began = time.monotonic()
                said = await is_judged_private(partial(stream_events, backend), text, seconds=60)
                times.append(time.monotonic() - began)
                alone += said
                found = bool(list(passages.find(text)))
                without += found
                kept += said or found
            figures[name] = {
                "prompts": prompts,
                "network": without,
                "judge": alone,
                "either": kept,
            }
    finally:
        await backend.stop()
    return {**figures, "median_seconds": round(median(times), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows = [asyncio.run(measure(path, options.prompts)) for path in options.model]
    for row in rows:
        print(row)
    if options.save:
        print(save("privacy-judge", {"models": rows}), file=sys.stderr)


if __name__ == "__main__":
    main()
