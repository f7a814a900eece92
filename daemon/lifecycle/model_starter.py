"""Starts a model's process, and once more with a smaller configuration if memory runs out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import (
    BackendError,
    EngineFault,
    LoadFailed,
    OutOfMemory,
    WorkerDied,
)
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.registry.engines import get_engine
from ingle.models.errors import ModelError, ModelNotFound
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.gguf.gguf_header import GGUFHeader

from ..client.engine_types import InstallProgress
from ..error_status import describe

if TYPE_CHECKING:
    from ..engines.engine_failures import EngineFailures
    from ..memory.memory_allocator import MemoryAllocator
    from ..model_process.model_run import ModelRun
    from ..settings.config import Config

log = logging.getLogger("ingle.daemon")

LEAST_BATCH = 128
LEAST_CONTEXT = 2048
_LAYERS_KEPT = 0.75
"""Share of the GPU layers that stay; the others take their part of the KV cache along."""
_COUNTERS = Path("/proc/vmstat")
_LAST_WORDS = (
    *("out of memory", "outofmemory", "bad_alloc", "memoryerror", "cannot allocate memory"),
    *("failed to allocate", "mem_buffer != null"),
)


PrepareEngine = Callable[[LoadSpec, Callable[[InstallProgress], None]], Awaitable[LoadSpec]]
"""Returns the spec with the folders of its engine's packages; reports what has to be installed."""


async def leave_engine(spec: LoadSpec, on_progress: Callable[[InstallProgress], None]) -> LoadSpec:
    """Return the spec as it is: its engine lies in ingle's own environment."""
    return spec


class ModelStarter:
    """Allocates memory for a run, starts its process, and retries once with less on out-of-
    memory.
    """

    def __init__(
        self,
        allocator: MemoryAllocator,
        create_backend: Callable[[LoadSpec], Backend],
        config: Config,
        prepare_engine: PrepareEngine = leave_engine,
        failures: EngineFailures | None = None,
    ) -> None:
        """`failures` keeps models off engines that failed on them; None forgets failures."""
        self._failures = failures
        self._recordings: set[asyncio.Task[None]] = set()
        self._prepare_engine = prepare_engine
        self._allocator = allocator
        self._create_backend = create_backend
        self._config = config

    async def open(self, run: ModelRun) -> ModelInfo:
        """Load the run's model; raises the load error.

        An engine that fails on a model that another may run is left for that one, in a process of
        its own.
        """
        await asyncio.gather(*self._recordings)
        spec = await self._allocator.take(run)
        if (reason := await self._known_failure(spec)) is not None:
            spec = await self._change_engine(run, spec, reason)
        kills = out_of_memory_kills()
        try:
            return await self._start(run, spec)
        except (LoadFailed, WorkerDied) as error:
            failure = error
        if may_change_engine(spec) and (isinstance(failure, LoadFailed) or failure.is_fault):
            await self._record(run, failure)
            spec = await self._change_engine(run, spec, failure.message)
            try:
                return await self._start(run, spec)
            except (LoadFailed, WorkerDied) as error:
                failure = error
        return await self._retry_smaller(run, spec, failure, kills)

    def died(self, run: ModelRun, failure: WorkerDied) -> None:
        """Record in the background that the engine of a loaded model failed; starts wait for it."""
        task = asyncio.create_task(self._record(run, failure), name="record engine failure")
        self._recordings.add(task)
        task.add_done_callback(self._recordings.discard)

    async def _record(self, run: ModelRun, failure: LoadFailed | WorkerDied) -> None:
        """Record a fault of the run's engine, unless no other one may run the model."""
        is_fault = (
            failure.is_fault
            if isinstance(failure, WorkerDied)
            else isinstance(failure, EngineFault)
        )
        spec = run.spec
        if self._failures is None or not is_fault or spec is None or not may_change_engine(spec):
            return
        await asyncio.to_thread(
            self._failures.add, spec.engine, spec.path, failure.message, run.model.name
        )

    async def _known_failure(self, spec: LoadSpec) -> str | None:
        if self._failures is None or not may_change_engine(spec):
            return None
        return await asyncio.to_thread(self._failures.find, spec.engine, spec.path)

    async def _change_engine(self, run: ModelRun, spec: LoadSpec, reason: str) -> LoadSpec:
        """Return how the next engine loads the model; the memory is allocated anew."""
        failed = get_engine(spec.engine)
        assert failed.fallback is not None
        other = get_engine(failed.fallback)
        note = f"{other.title} runs this model, since {failed.title} could not: {reason}"
        log.warning("%s: %s", run.model.name, note)
        if run.backend is not None:
            await run.backend.stop(0)
            await self._allocator.wait_for(run)
        run.needs = MemoryNeeds()
        run.options = msgspec.structs.replace(run.options, engine=other.name)
        spec = await self._allocator.take(run)
        run.cuts.append(note)
        return spec

    async def _retry_smaller(
        self, run: ModelRun, spec: LoadSpec, lack: LoadFailed | WorkerDied, kills: int
    ) -> ModelInfo:
        """Load once more with less, if memory ran out; raises `lack` otherwise."""
        smaller = None
        if lacked_memory(lack, kills):
            smaller = await asyncio.to_thread(
                reduced_spec, spec, shrinks_context=self._config.shrink_context
            )
        if smaller is None:
            raise lack
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
        most, default = self._config.max_tokens, self._config.default_max_tokens
        spec = msgspec.structs.replace(spec, max_tokens=most, default_max_tokens=default)
        reason = run.reason

        def waits(progress: InstallProgress) -> None:
            run.set_reason(_waiting_for(progress))
            run.progressed(0.0)

        spec = await self._prepare_engine(spec, waits)
        run.set_reason(reason)
        run.backend = self._create_backend(spec)
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


def _waiting_for(progress: InstallProgress) -> str:
    """Return why a model is not loaded yet, as a sentence."""
    share = f" ({progress.done / progress.total:.0%})" if progress.total else ""
    return f"{progress.title} is being installed first: {progress.step}{share}."


def may_change_engine(spec: LoadSpec) -> bool:
    """Whether another engine may run the model if this one fails."""
    return spec.may_fall_back and get_engine(spec.engine).fallback is not None


class ReducedSpec(msgspec.Struct, frozen=True):
    """A smaller configuration, and a description of what it has less of."""

    spec: LoadSpec
    changes: str


def out_of_memory_kills(counters: Path = _COUNTERS) -> int:
    """Return how many processes Linux has killed for lack of memory since boot; 0 elsewhere."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def lacked_memory(error: BackendError, kills_before: int, counters: Path = _COUNTERS) -> bool:
    """Whether the failure was out-of-memory; `kills_before` is the count when the start began."""
    if isinstance(error, OutOfMemory):
        return True
    if not isinstance(error, WorkerDied):
        return False
    words = f"{error.message}\n{error.stderr_tail}".lower()
    if any(word in words for word in _LAST_WORDS):
        return True
    return "sigkill" in words and out_of_memory_kills(counters) > kills_before


def reduced_spec(spec: LoadSpec, *, shrinks_context: bool) -> ReducedSpec | None:
    """Return a spec with a smaller batch, fewer GPU layers and, if allowed, a smaller context.

    None if nothing can be reduced. Reads the file's header.
    """
    changed: dict[str, int] = {}
    words: list[str] = []
    if spec.batch > LEAST_BATCH:
        changed["batch"] = max(LEAST_BATCH, spec.batch // 4)
        words.append(f"steps of {changed['batch']} tokens")
    layers = _layers_on_gpu(spec)
    if layers > 0:
        changed["gpu_layers"] = int(layers * _LAYERS_KEPT)
        words.append(f"{changed['gpu_layers']} layers on the GPU")
    if shrinks_context and spec.context > LEAST_CONTEXT:
        changed["context"] = max(LEAST_CONTEXT, spec.context // 2)
        if spec.kv_capacity:
            changed["kv_capacity"] = max(changed["context"], spec.kv_capacity // 2)
        words.append(f"a context of {changed['context']} tokens")
    if not changed:
        return None
    text = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return ReducedSpec(msgspec.structs.replace(spec, **changed), text)


def _layers_on_gpu(spec: LoadSpec) -> int:
    """Return the layers that could leave the GPU one by one."""
    if not get_engine(spec.engine).splits_layers:
        return 0
    if spec.gpu_layers >= 0:
        return spec.gpu_layers
    from ingle.backends.selection.load_spec_builder import describe

    try:
        header = describe(Path(spec.path))
    except ModelError:
        return 0
    return header.block_count if isinstance(header, GGUFHeader) else 0
