"""One part of the GPU measurements, in a process of its own: a fault costs that part alone."""

from __future__ import annotations

import argparse
import importlib
import json
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

PARTS = (
    "against_llama_cpp",
    "confined",
    "conformance",
    "correctness",
    "engine",
    "bandwidth",
    "attention",
    "many_columns",
    "fp8",
    "experts",
    "recurrent",
    "heads",
    "sampling",
    "launch_cost",
    "decode_step",
    "crossover",
    "peers",
    "forward",
    "tuning",
)
# The others measure.
CHECKS = {"against_llama_cpp", "confined", "conformance", "correctness"}
# Each is a part of its own, such as correctness.rows: a fault hides nothing else.
FAMILIES = {
    "correctness": (
        "quantization",
        "rows",
        "products",
        "dense",
        "many_columns",
        "fp8",
        "experts",
        "recurrent",
        "attention",
        "heads",
        "fusions",
        "sampling",
        "huge",
    )
}


def all_parts(names: Sequence[str]) -> list[str]:
    """Return all these parts, with each family of one by itself."""
    return [
        part
        for name in names
        for part in ([f"{name}.{each}" for each in FAMILIES.get(name, ())] or [name])
    ]


def run_part(name: str, *, on_cpu: bool, seconds: float, overlap: bool = True) -> dict[str, Any]:
    """Return the part's result with a `status`: ok, failed, skipped or broken, and lines for
    people.
    """
    try:
        session_module: Any = importlib.import_module("gpu.session")
        module, _, family = name.partition(".")
        part: Any = importlib.import_module(f"gpu.{module}")
        rehearsal: Any = importlib.import_module("gpu.rehearsal") if on_cpu else None
    except ImportError as error:
        return {"status": "skipped", "lines": [f"a package is missing: {error}"]}
    try:
        session = session_module.Session(on_cpu=on_cpu, seconds=seconds, overlap=overlap)
        with rehearsal.rehearsal() if on_cpu else nullcontext():
            result: dict[str, Any] = part.run(session, family) if family else part.run(session)
    except session_module.Skipped as skipped:
        return {"status": "skipped", "lines": [skipped.reason]}
    except Exception as error:
        return {"status": "broken", "lines": [str(error)], "traceback": traceback.format_exc()}
    status = "ok" if result.get("ok", True) else "failed"
    lines = part.table(result)
    if on_cpu and status == "ok" and module not in CHECKS:
        return {"status": status, "lines": ["it runs to its end; figures of a CPU say nothing"]}
    return {"status": status, "lines": lines, "result": result}


def main(argv: Sequence[str] | None = None) -> None:
    """Run it and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=all_parts(PARTS))
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--on-cpu", action="store_true")
    parser.add_argument("--without-overlap", action="store_true")
    arguments = parser.parse_args(argv)
    result = run_part(
        arguments.name,
        on_cpu=arguments.on_cpu,
        seconds=arguments.seconds,
        overlap=not arguments.without_overlap,
    )
    arguments.output.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
