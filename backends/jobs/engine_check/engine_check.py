"""The check of an engine in a child process, run as `python -P -m`.

The child is confined like a worker first, so that what a sandbox denies fails here too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from ...base.errors import BackendError
from ...confinement.access_policy import AccessPolicy, has_gpu_device
from ...confinement.denied_call_reporter import DeniedCallReporter
from ...packages.engine_packages import SPEECH
from ..child_main import Send, run_task
from ..child_task import ChildTask
from .check_step import Step, StepFailed
from .messages import EngineCheckEnd, EngineCheckSpec, EngineCheckStep

run_engine_check = ChildTask(
    "ingle.backends.jobs.engine_check.engine_check",
    "checks the engine",
    progress=EngineCheckStep,
    result=EngineCheckEnd,
).run
"""Takes an `EngineCheckSpec`, and passes each step on; raises what `ChildTask.run` raises."""


def check_steps(spec: EngineCheckSpec) -> Iterator[Step]:
    """Yield the steps in order."""
    if spec.engine == "cuda":
        from .cuda_steps import cuda_steps

        yield from cuda_steps(Path(spec.kernel_cache))
    elif spec.engine == SPEECH:
        from .speech_steps import speech_steps

        yield from speech_steps()
    else:
        from .llama_cpp_steps import llama_cpp_steps

        yield from llama_cpp_steps()


def _work(reporter: DeniedCallReporter | None, spec: EngineCheckSpec, send: Send) -> EngineCheckEnd:
    for name, make in check_steps(spec):
        try:
            step = EngineCheckStep(name=name, passed=True, detail=make())
        except StepFailed as error:
            step = EngineCheckStep(
                name=name, passed=False, detail=error.reason, remedy=error.remedy
            )
        except (BackendError, OSError, RuntimeError, ImportError) as error:
            step = EngineCheckStep(name=name, passed=False, detail=f"{error}".splitlines()[0])
        denied = [] if reporter is None else reporter.take()
        if denied and not step.passed:
            detail = f"{step.detail} (the confinement denied: {', '.join(denied)})"
            step = msgspec.structs.replace(step, detail=detail)
        send(step)
        if not step.passed:
            break
    return EngineCheckEnd()


def _policy(spec: EngineCheckSpec) -> AccessPolicy:
    cache = Path(spec.kernel_cache)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return AccessPolicy((cache,), writes=(cache,), drives_gpu=has_gpu_device())


if __name__ == "__main__":
    reporter = DeniedCallReporter() if sys.platform == "linux" else None
    run_task(EngineCheckSpec, partial(_work, reporter), _policy, reporter)
