"""Starts a model's process, with a smaller configuration if memory runs out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import LoadFailed, OutOfMemory, WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.models.errors import ModelNotFound

from ..error_status import describe
from ..memory.out_of_memory import lacked_memory, out_of_memory_kills, reduced_spec

if TYPE_CHECKING:
    from ..memory.memory_allocator import MemoryAllocator
    from ..model_process.model_run import ModelRun
    from .owner_limits import OwnerLimits

log = logging.getLogger("ingle.daemon")


class ModelStarter:
    """Allocates memory for a run, starts its process, and retries once with less on out-of-
    memory.
    """

    def __init__(
        self,
        allocator: MemoryAllocator,
        create_backend: Callable[[LoadSpec], Backend],
        limits: OwnerLimits,
    ) -> None:
        self._allocator = allocator
        self._create_backend = create_backend
        self._limits = limits

    async def open(self, run: ModelRun) -> ModelInfo:
        """Load the run's model; raises the load error."""
        spec = await self._allocator.take(run)
        kills = out_of_memory_kills()
        try:
            return await self._start(run, spec)
        except (LoadFailed, WorkerDied) as error:
            if not lacked_memory(error, kills):
                raise
            smaller = await asyncio.to_thread(
                reduced_spec, spec, shrinks_context=self._limits.shrink_context
            )
            if smaller is None:
                raise
            lack = error
        reason = run.reason
        log.warning("%s: %s Retrying with %s", run.model.name, lack, smaller.changes)
        run.set_reason(f"Retrying with {smaller.changes} because memory ran out.")
        assert run.backend is not None
        await run.backend.stop(0)
        await self._allocator.wait_for(run)
        try:
            info = await self._start(run, smaller.spec)
        except (LoadFailed, WorkerDied) as error:
            if not lacked_memory(error, kills):
                raise
            raise OutOfMemory(
                f"{describe(lack).message} A retry with {smaller.changes} failed too.",
                hint=describe(error).hint or "Unload another model, or choose a smaller one.",
            ) from error
        run.spec, run.reason = smaller.spec, reason
        run.cuts.append(f"Memory ran out, so it was loaded with {smaller.changes}.")
        return info

    async def _start(self, run: ModelRun, spec: LoadSpec) -> ModelInfo:
        run.backend = self._create_backend(self._limits.apply(spec))
        try:
            return await run.backend.start(run.progressed)
        except LoadFailed as error:
            path = run.model.path
            if await asyncio.to_thread(path.exists):
                raise
            raise ModelNotFound(
                f"The file of '{run.model.name}' was removed while it was loading: {path}.",
                hint="Pull the model again.",
            ) from error
