"""Compares memory predicted by `models/fit/llama_cpp_fit.py` with a worker's real use."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
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
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask
from ingle.models.safetensors.model_folder import is_model_folder

MIB = 2**20
CONTEXTS = {"llama.cpp": (1024, 4096, 8192), "cuda": (512, 2048, 4096)}
SLOTS = 8


@dataclass(frozen=True)
class Measured:
    """Resident bytes of one process as though it were alone.

    Each page counts whole, be it shared or not: `own` ones that no file backs, those of the
    `weights` file, and those of `libraries`. Of the file all that is mapped counts: it was read
    when the model was loaded, even if the system has dropped some of it for others since.
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
        own = weights = libraries = size = resident = 0
        inside = str(model.resolve())
        mapped = ""
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if not words[0].endswith(":"):
                mapped = words[5].strip() if len(words) > 5 else ""
            elif words[0] == "Size:":
                size = int(words[1]) * 1024
            elif words[0] == "Rss:":
                resident = int(words[1]) * 1024
            elif words[0] == "Anonymous:":
                private = int(words[1]) * 1024
                own += private
                if mapped.startswith(inside):
                    weights += size - private
                else:
                    libraries += resident - private
        return cls(own, weights, libraries)


@dataclass(frozen=True)
class Row:
    """One load of one model."""

    model: str
    engine: str
    context: int
    slots: int
    kv_type: str
    foretold: MemoryEstimate
    loaded: Measured
    used: Measured

    @property
    def error(self) -> float:
        """Return by how many percent the prediction exceeds the use with a full context."""
        return 100 * (self.foretold.resident / self.used.total - 1)

    @property
    def key(self) -> tuple[str, ...]:
        """Return what was loaded, and how."""
        return (self.model, self.engine, str(self.context), str(self.slots), str(self.kv_type))

    def as_json(self) -> dict[str, object]:
        """For the result file; bytes."""
        parts = ("weights", "kv", "compute", "runtime", "reclaimable", "total", "resident")
        return {
            "model": self.model,
            "engine": self.engine,
            "context": self.context,
            "slots": self.slots,
            "kv_type": self.kv_type,
            "foretold": {part: getattr(self.foretold, part) for part in parts},
            "loaded": vars(self.loaded) | {"total": self.loaded.total},
            "used": vars(self.used) | {"total": self.used.total},
            "error_percent": round(self.error, 2),
        }


async def measure(
    path: Path, engine: str, context: int, slots: int = SLOTS, kv_type: KVType = KVType.F16
) -> Row:
    """Load the model, fill its whole context with one prompt, then use all slots at once."""
    description = describe(path)
    wanted = LoadSpec(
        engine=engine,
        path=str(path),
        context=context,
        slots=slots,
        kv_type=kv_type,
        gpu_layers=0,
    )
    spec = complete_spec(wanted, description)
    foretold = forecast(ModelCosts.of(description), spec)
    backend = WorkerProcess(spec)
    try:
        info = await backend.start()
        assert backend.pid is not None
        loaded = Measured.of(backend.pid, path)
        if info.task is ModelTask.GENERATE:
            await _fill(backend, info.context, slots)
        else:
            text = [1000 + number % 1000 for number in range(info.context)]
            # Together they fill a batch.
            texts: list[str | list[int]] = [text for _ in range(max(1, spec.batch // info.context))]
            await backend.embed(EmbedRequest(id="whole", inputs=texts))
        used = Measured.of(backend.pid, path)
        return Row(path.name, engine, info.context, slots, kv_type, foretold, loaded, used)
    finally:
        await backend.stop()


async def _fill(backend: Backend, context: int, slots: int) -> None:
    whole = [100 + number * 7919 % 1000 for number in range(context - 16)]
    await _answer(backend, "whole", whole)
    await asyncio.gather(
        *(_answer(backend, f"short-{slot}", whole[slot : slot + 16]) for slot in range(slots))
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
    print(
        f"{'model':<38} {'engine':<9} {'context':>7} {'slots':>5} {'KV':>5} "
        + " ".join(f"{c:>8}" for c in columns)
    )
    for row in rows:
        told = row.foretold
        parts = (told.weights, told.kv, told.compute, told.runtime, told.reclaimable, told.resident)
        sizes = (*parts, row.loaded.total, row.used.total)
        numbers = " ".join(f"{size / MIB:>8.1f}" for size in sizes)
        how = f"{row.engine:<9} {row.context:>7} {row.slots:>5} {row.kv_type:>5}"
        print(f"{row.model[:38]:<38} {how} {numbers} {row.error:>+7.1f}%", flush=True)


def main() -> None:
    """Measure every model named, with each engine that runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--engines", nargs="+", type=str, default=list(CONTEXTS))
    parser.add_argument("--contexts", nargs="+", type=int)
    parser.add_argument("--slots", nargs="+", type=int, default=[SLOTS])
    parser.add_argument("--kv-types", nargs="+", type=KVType, default=[KVType.F16])
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for path, engine in product(options.models, options.engines):
        if not _runs(path, engine):
            continue
        contexts: Sequence[int] = options.contexts or CONTEXTS[engine]
        kv_types: Sequence[KVType] = options.kv_types
        for (context, slots), kv_type in product(product(contexts, options.slots), kv_types):
            row = asyncio.run(measure(path, engine, context, slots, kv_type))
            if row.key in {known.key for known in rows}:
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
    new = {row.key: row.as_json() for row in rows}
    kept = [row for row in before if _key(row) not in new]
    return save("fit", {"rows": [*kept, *new.values()]})


def _key(row: dict[str, object]) -> tuple[str, ...]:
    usual = {"slots": SLOTS, "kv_type": KVType.F16} | row
    return tuple(str(usual[name]) for name in ("model", "engine", "context", "slots", "kv_type"))


def _runs(path: Path, engine: str) -> bool:
    if is_model_folder(path):
        return engine == "cuda"
    costs = ModelCosts.of(describe(path))
    assert costs.shape is not None
    writes = costs.shape.task is ModelTask.GENERATE
    return engine == "llama.cpp" or (writes and costs.config is not None)


if __name__ == "__main__":
    main()
