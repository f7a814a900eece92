"""Which model answers a request that names none, as llama-server's clients send them."""

from __future__ import annotations

import time

from ingle.models.task import ModelTask

from ...model_run import ModelRun
from ...services import Services


def chosen_model(
    services: Services,
    named: str | None,
    *,
    task: ModelTask = ModelTask.GENERATE,
    infills: bool = False,
) -> str:
    """The one named, else of those loaded for the `task` the one used last, else the default.

    With `infills` one that fills gaps comes before others.
    """
    if named:
        return named
    runs = [services.manager.find(model) for model in services.manager.models()]
    loaded = [run for run in runs if run is not None and run.model.task is task]
    if not loaded:
        return services.config.default_model
    return max(loaded, key=lambda run: _preference(run, infills=infills)).model.name


def _preference(run: ModelRun, *, infills: bool) -> tuple[bool, float]:
    fits = infills and run.info is not None and run.info.infills
    return fits, time.monotonic() if run.busy else run.last_used
