"""Checks of what engines did on this machine."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator

from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.registry.engines import all_engines

from ..client.doctor_types import Diagnostic
from .system_state import SystemState


def check_failures(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that no engine is on record as failed on a model."""
    engines = {engine.name: engine for engine in all_engines()}
    for failure in situation.engine_failures:
        failed = engines.get(failure.engine)
        if failed is None or failed.fallback is None:
            continue  # recorded by another version
        name = failure.name or failure.model
        what = f"{failed.title} failed on {name}."
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(failure.failed_at))
        where = "; ".join(filter(None, [failure.gpu, when if failure.failed_at else ""]))
        why = failure.reason
        if where:
            why = f"{why.removesuffix('.')} ({where})."
        if failure.setting != situation.engine_setting:
            yield Diagnostic(
                code="engine-failed-before",
                severity="note",
                what=what,
                why=f"{why} The GPU, its driver or the kernels have changed since, so the next "
                "load tries the engine again.",
            )
            continue
        packages = next(
            each for each in all_engine_packages().values() if each.engine == failed.name
        )
        yield Diagnostic(
            code="engine-failed",
            severity="warning",
            what=what,
            why=f"{why} {engines[failed.fallback].title} runs the model instead.",
            mend="Check the engine: if that passes, it is tried again on all models. Unloading "
            "this model has it tried again on this one:",
            commands=[f"ingle engine check {packages.name}", f"ingle unload {shlex.quote(name)}"],
        )
