"""Removes a model: its process, its files and its stored KV."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import structs

from ingle.models.errors import ModelNotFound
from ingle.models.store.model_removal import RemovalReport

from ..access.permission import current_permission
from ..load_planning.kv_folder import remove_stored_kv, weights_digest
from ..services import Services


async def remove_model(
    services: Services, reference: str, *, delete_file: bool = False
) -> RemovalReport:
    """Remove a model; return what was deleted and the bytes freed.

    Raises `ModelNotFound`, `NotInStore` and `ModelInUse`.
    """
    store = services.store
    # Before the process ends: a model that must not be removed keeps running.
    plan = await asyncio.to_thread(store.plan_removal, reference, delete_file=delete_file)
    current_permission().check_model(plan.name)
    digest: str | None = None
    try:
        model = await asyncio.to_thread(store.resolve, plan.name)
    except ModelNotFound:
        # An unfinished download has a name, but is not a model yet.
        pass
    else:
        digest = await asyncio.to_thread(weights_digest, model)
        await services.manager.unload(plan.name)
    done = await asyncio.to_thread(store.remove, reference, delete_file=delete_file)
    if any(loaded.name == done.name for loaded in services.manager.loaded()):
        # A request loaded it between the two steps above.
        with suppress(ModelNotFound):
            await services.manager.unload(done.name)
    if digest is not None and not await asyncio.to_thread(_is_shared, services, digest):
        freed = await asyncio.to_thread(remove_stored_kv, services.config.paths, digest)
        return structs.replace(done, frees=done.frees + freed)
    return done


def _is_shared(services: Services, digest: str) -> bool:
    """Whether another model has the same weights, and therefore the same stored KV."""
    return any(model.sha256 == digest for model in services.store.list())
