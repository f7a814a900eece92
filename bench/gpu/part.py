"""One part of the GPU measurements, in a process of its own: a fault costs that part alone."""

from __future__ import annotations

import argparse
import importlib
import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PARTS = (
    "confined",
    "conformance",
    "against_llama_cpp",
    "correctness",
    "engine",
    "bandwidth",
    "attention",
    "many_columns",
    "heads",
    "sampling",
    "launch_cost",
    "decode_step",
    "crossover",
    "peers",
    "forward",
    "tuning",
)


def run_part(name: str, *, on_cpu: bool, seconds: float) -> dict[str, Any]:
    """Return the part's result with a `status`: ok, failed, skipped or broken, and lines for
    people.
    """
    try:
        session_module: Any = importlib.import_module("gpu.session")
        part: Any = importlib.import_module(f"gpu.{name}")
    except ImportError as error:
        return {"status": "skipped", "lines": [f"a package is missing: {error}"]}
    try:
        session = session_module.Session(on_cpu=on_cpu, seconds=seconds)
        result: dict[str, Any] = part.run(session)
    except session_module.Skipped as skipped:
        return {"status": "skipped", "lines": [skipped.reason]}
    except Exception as error:
        return {"status": "broken", "lines": [str(error)], "traceback": traceback.format_exc()}
    status = "ok" if result.get("ok", True) else "failed"
    return {"status": status, "lines": part.table(result), "result": result}


def main(argv: Sequence[str] | None = None) -> None:
    """Run it and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PARTS)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--on-cpu", action="store_true")
    arguments = parser.parse_args(argv)
    result = run_part(arguments.name, on_cpu=arguments.on_cpu, seconds=arguments.seconds)
    arguments.output.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
