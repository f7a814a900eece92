"""Runs the check of an engine, and makes of its end a step like the others."""

from __future__ import annotations

from ingle.backends.base.errors import BackendError
from ingle.backends.jobs.engine_check.engine_check import run_engine_check
from ingle.backends.jobs.engine_check.messages import EngineCheckSpec, EngineCheckStep
from ingle.backends.packages.engine_packages import SPEECH, EnginePackages
from ingle.backends.packages.engine_store import EngineStore

from ..client.engine_types import CheckStep, EngineCheck
from ..settings.paths import Paths
from .engine_paths import engine_import_path


def check_engine(packages: EnginePackages, paths: Paths) -> EngineCheck:
    """Check the installed packages step by step; blocking.

    A child that dies is a failed step.
    """
    steps: list[CheckStep] = []

    def add(step: EngineCheckStep) -> None:
        steps.append(
            CheckStep(name=step.name, passed=step.passed, detail=step.detail, remedy=step.remedy)
        )

    spec = EngineCheckSpec(engine=packages.engine, kernel_cache=str(paths.kernels))
    try:
        folders = engine_import_path(paths)
        if packages.engine == SPEECH:
            folders = EngineStore(paths.engines).import_path([SPEECH])
        run_engine_check(spec, add, folders)
    except BackendError as error:
        remedy = "`ingle doctor` checks this machine."
        steps.append(CheckStep(name="end", passed=False, detail=error.message, remedy=remedy))
    return EngineCheck(name=packages.name, steps=steps)
