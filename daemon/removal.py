"""Removing a model: its process, its files, and what was computed for its conversations."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ingle.models.errors import ModelNotFound

from .kv_folder import remove_stored_kv, weights_digest
from .services import Services


async def remove_model(services: Services, reference: str) -> tuple[str, int]:
    """The name of the model that is gone, and the bytes that are free again.

    Raises `ModelNotFound` and `ModelInUse`.
    """
    name = services.canonical(reference)
    digest: str | None = None
    try:
        model = await asyncio.to_thread(services.store.resolve, reference)
    except ModelNotFound:
        # What is left of an unfinished download has a name, but is no model yet.
        pass
    else:
        name = model.name
        digest = await asyncio.to_thread(weights_digest, model)
        await services.manager.unload(reference)
    freed = await asyncio.to_thread(services.store.remove, reference)
    if any(loaded.name == name for loaded in services.manager.loaded()):
        # Somebody asked for it between the two steps above.
        with suppress(ModelNotFound):
            await services.manager.unload(name)
    if digest is not None and not await asyncio.to_thread(_is_shared, services, digest):
        freed += await asyncio.to_thread(remove_stored_kv, services.config.paths, digest)
    return name, freed


def _is_shared(services: Services, digest: str) -> bool:
    """Whether another model has the same weights, and with them what was computed."""
    return any(model.sha256 == digest for model in services.store.list())
