"""Which model answers a request that names none, as llama-server's clients send them."""

from __future__ import annotations

import time

from ingle.models.model_task import ModelTask

from ...library.model_facts import FactsReader
from ...model_process.model_run import ModelRun
from ...services import Services


def chosen_model(
    services: Services, named: str | None, *, task: ModelTask = ModelTask.GENERATE
) -> str:
    """The one named, else of those loaded for the `task` the one used last, else the default."""
    if named:
        return named
    loaded = _loaded(services, task)
    return max(loaded, key=_used).model.name if loaded else services.config.default_model


def infilling_model(services: Services, facts: FactsReader, named: str | None) -> str:
    """The one named, else of those that fill gaps the one used last, else the smallest installed.

    Where there is none it is the one that would be chosen for anything; reads the store.
    """
    if named:
        return named
    loaded = [run for run in _loaded(services, ModelTask.GENERATE) if run.info and run.info.infills]
    if loaded:
        return max(loaded, key=_used).model.name
    fit = [
        model
        for model in services.store.list()
        if model.task is ModelTask.GENERATE and facts.read(model).capabilities.infills
    ]
    if fit:
        return min(fit, key=lambda model: model.size).name
    return chosen_model(services, None)


def _loaded(services: Services, task: ModelTask) -> list[ModelRun]:
    runs = [services.manager.find(model) for model in services.manager.models()]
    return [run for run in runs if run is not None and run.model.task is task]


def _used(run: ModelRun) -> float:
    return time.monotonic() if run.busy else run.last_used
