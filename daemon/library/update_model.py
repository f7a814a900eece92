"""Brings new versions of models, and puts the kept ones back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ingle.models.download.pull_progress import OnPullProgress
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_updates import roll_back, update_model

from ..services import Services
from .pulls import Pull


async def start_update(services: Services, reference: str) -> Pull:
    """Return the download of a model's new version, which is in use at its end.

    A process that runs the old version ends with its last answer. Raises `ModelNotFound`.
    """
    model = await asyncio.to_thread(services.resolve, reference)
    loop = asyncio.get_running_loop()

    def work(name: str, on_progress: OnPullProgress, cancelled: Callable[[], bool]) -> StoredModel:
        updated = update_model(services.store, model, on_progress, cancelled)
        if updated.path != model.path:
            asyncio.run_coroutine_threadsafe(services.manager.unload(model.name), loop)
        return updated

    return services.pulls.join(model.name, work)


async def roll_back_model(services: Services, reference: str) -> StoredModel:
    """Put the kept version of a model in use; raises `ModelNotFound` and `ModelInUse`."""
    model = await asyncio.to_thread(services.resolve, reference)
    older = await asyncio.to_thread(roll_back, services.store, model)
    await services.manager.unload(model.name)
    return older


async def discard_kept(services: Services, reference: str) -> tuple[str, int]:
    """Remove a model's kept version; return the model's name and the bytes that this frees."""
    model = await asyncio.to_thread(services.resolve, reference)
    versions = services.store.versions_of(model)
    if versions is None:
        return model.name, 0

    def discard() -> int:
        with services.store.folders.claim(model.name):
            return versions.discard()

    return model.name, await asyncio.to_thread(discard)
