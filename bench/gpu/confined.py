"""The check of ingle's own engine under the confinement of a worker: `ingle engine check cuda`."""

from __future__ import annotations

from typing import Any

from gpu.session import Session
from msgspec.structs import asdict

from ingle.backends.jobs.engine_check.engine_check import run_engine_check
from ingle.backends.jobs.engine_check.messages import EngineCheckSpec, EngineCheckStep


def run(session: Session) -> dict[str, object]:
    """Return the steps, of which the last one failed if `ok` is False."""
    steps: list[EngineCheckStep] = []
    spec = EngineCheckSpec(engine="cuda", kernel_cache=str(session.folder))
    run_engine_check(spec, steps.append)
    # Without a GPU the check has to get as far as its driver.
    judged = steps[:1] if session.on_cpu else steps
    return {"ok": all(step.passed for step in judged), "steps": [asdict(step) for step in steps]}


def table(result: dict[str, Any]) -> list[str]:
    """One line a step."""
    return [
        f"{step['name']}: {'ok' if step['passed'] else 'FAILED'}, {step['detail']} {step['remedy']}"
        for step in result["steps"]
    ]
