"""Compares memory predicted by `models/fit/llama_cpp_fit.py` with a worker's real use."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import RESULTS, save

from ingle.backends.base.backend import Backend, stream_events
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import EmbedRequest, GenerateRequest
from ingle.backends.hardware.read_cpu import read_cpu
from ingle.backends.registry.engines import get_engine
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.load_spec_builder import complete_spec, describe
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.fit.llama_cpp_fit import LoadParameters, MemoryEstimate
from ingle.models.fit.process_overhead import repacked_types
from ingle.models.model_task import ModelTask
from ingle.models.safetensors.model_folder import is_model_folder

MIB = 2**20
CONTEXTS = {"llama.cpp": (1024, 4096, 8192), "cuda": (512, 2048, 4096)}
SLOTS = 8


@dataclass(frozen=True)
class Measured:
    """Resident bytes of one process as though it were alone.

    Each page counts whole, be it shared or not: `own` ones that no file backs, those of the
    `weights` file, once however often it is mapped, and those of `libraries`.
    """

    own: int = 0
    weights: int = 0
    libraries: int = 0

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.own + self.weights + self.libraries

    @classmethod
    def of(cls, pid: int, model: Path) -> Measured:
        """Read the kernel's figures for each mapping."""
        own = weights = libraries = resident = 0
        inside = str(model.resolve())
        mapped = ""
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if not words[0].endswith(":"):
                mapped = words[5].strip() if len(words) > 5 else ""
            elif words[0] == "Rss:":
                resident = int(words[1]) * 1024
            elif words[0] == "Anonymous:":
                private = int(words[1]) * 1024
                own += private
                if mapped.startswith(inside):
                    weights += resident - private
                else:
                    libraries += resident - private
        return cls(own, weights, libraries)


@dataclass(frozen=True)
class Row:
    """One load of one model."""

    model: str
    engine: str
    context: int
    foretold: MemoryEstimate
    loaded: Measured
    used: Measured

    @property
    def error(self) -> float:
        """Return by how many percent the prediction exceeds the use with a full context."""
        return 100 * (self.foretold.resident / self.used.total - 1)

    def as_json(self) -> dict[str, object]:
        """For the result file; bytes."""
        parts = ("weights", "kv", "compute", "runtime", "reclaimable", "total", "resident")
        return {
            "model": self.model,
            "engine": self.engine,
            "context": self.context,
            "foretold": {part: getattr(self.foretold, part) for part in parts},
            "loaded": vars(self.loaded) | {"total": self.loaded.total},
            "used": vars(self.used) | {"total": self.used.total},
            "error_percent": round(self.error, 2),
        }


async def measure(path: Path, engine: str, context: int) -> Row:
    """Load the model, fill its whole context with one prompt, then use all slots at once."""
    description = describe(path)
    wanted = LoadSpec(engine=engine, path=str(path), context=context, slots=SLOTS, gpu_layers=0)
    spec = complete_spec(wanted, description)
    foretold = forecast(ModelCosts.of(description), spec)
    backend = WorkerProcess(spec)
    try:
        info = await backend.start()
        assert backend.pid is not None
        loaded = Measured.of(backend.pid, path)
        if info.task is ModelTask.GENERATE:
            await _fill(backend, info.context)
        else:
            text = [1000 + number % 1000 for number in range(info.context)]
            # Together they fill a batch.
            texts: list[str | list[int]] = [text for _ in range(max(1, spec.batch // info.context))]
            await backend.embed(EmbedRequest(id="whole", inputs=texts))
        return Row(
            path.name, engine, info.context, foretold, loaded, Measured.of(backend.pid, path)
        )
    finally:
        await backend.stop()


async def _fill(backend: Backend, context: int) -> None:
    whole = [100 + number * 7919 % 1000 for number in range(context - 16)]
    await _answer(backend, "whole", whole)
    await asyncio.gather(
        *(_answer(backend, f"short-{slot}", whole[slot : slot + 16]) for slot in range(SLOTS))
    )


async def _answer(backend: Backend, name: str, prompt: list[int]) -> None:
    request = GenerateRequest(id=name, prompt=prompt, max_tokens=8, ignore_eos=True)
    async for _ in stream_events(backend, request):
        pass


def forecast(costs: ModelCosts, spec: LoadSpec) -> MemoryEstimate:
    """Return the prediction for the CPU."""
    load = LoadParameters(
        context=spec.context,
        slots=spec.slots,
        batch=spec.batch,
        kv_type=spec.kv_type,
        repacked=repacked_types(read_cpu().instruction_sets),
    )
    return get_engine(spec.engine).estimate(costs, load, host=2**40).host


def show(rows: Sequence[Row]) -> None:
    """A table in MiB."""
    columns = ("weights", "KV", "step", "process", "stale", "sum", "loaded", "used", "error")
    print(f"{'model':<38} {'engine':<9} {'context':>7} " + " ".join(f"{c:>8}" for c in columns))
    for row in rows:
        told = row.foretold
        parts = (told.weights, told.kv, told.compute, told.runtime, told.reclaimable, told.resident)
        sizes = (*parts, row.loaded.total, row.used.total)
        numbers = " ".join(f"{size / MIB:>8.1f}" for size in sizes)
        print(
            f"{row.model[:38]:<38} {row.engine:<9} {row.context:>7} {numbers} {row.error:>+7.1f}%",
            flush=True,
        )


def main() -> None:
    """Measure every model named, with each engine that runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--engines", nargs="+", type=str, default=list(CONTEXTS))
    parser.add_argument("--contexts", nargs="+", type=int)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for path in options.models:
        for engine in options.engines:
            if not _runs(path, engine):
                continue
            for context in options.contexts or CONTEXTS[engine]:
                row = asyncio.run(measure(path, engine, context))
                if rows and (row.model, row.engine, row.context) == (
                    rows[-1].model,
                    rows[-1].engine,
                    rows[-1].context,
                ):
                    continue  # the model was trained for no more
                rows.append(row)
                show(rows[-1:])
    print(file=sys.stderr)
    show(rows)
    if options.save:
        print(_save(rows), file=sys.stderr)


def _save(rows: Sequence[Row]) -> Path:
    """Write the rows beside those of other loads that were measured before."""
    path = RESULTS / "fit.json"
    before: list[dict[str, object]] = json.loads(path.read_text())["rows"] if path.exists() else []
    new = {(row.model, str(row.engine), row.context): row.as_json() for row in rows}
    kept = [row for row in before if (row["model"], row["engine"], row["context"]) not in new]
    return save("fit", {"rows": [*kept, *new.values()]})


def _runs(path: Path, engine: str) -> bool:
    if is_model_folder(path):
        return engine == "cuda"
    costs = ModelCosts.of(describe(path))
    assert costs.shape is not None
    writes = costs.shape.task is ModelTask.GENERATE
    return engine == "llama.cpp" or (writes and costs.config is not None)


if __name__ == "__main__":
    main()
