"""Allocates memory to starting models, and evicts idle models if there is too little."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ingle.backends.base.load_spec import LoadSpec
from ingle.models.fit.memory_needs import MemoryNeeds

from ..errors import MemoryBusy, MemoryExhausted
from ..load_planning.load_options import LoadOptions
from ..load_planning.load_planner import LoadPlan, Preparer
from ..machine.memory_reader import MemoryReader, wait_for_release
from ..model_process.model_run import ModelRun, ModelState
from ..speech.speech_memory import SpeechMemory
from .eviction_plan import EvictionPlan, ResidentModel, plan_eviction
from .memory_ledger import MemoryLedger

log = logging.getLogger("ingle.daemon")

RELEASE_PATIENCE = 10.0
TRIM_PATIENCE = 1.0
TRIES = 2
COMFORTABLE_CONTEXT = 8192
"""Tokens; to exceed it without a request for more, no other model is evicted."""
_RETRY_SECONDS = 1.0


class AllocationTimes(msgspec.Struct, frozen=True):
    """Timing of allocations, in seconds.

    A model waits up to `patience` for others to become idle; after `drain_after` the models it
    waits for accept no new requests. Memory of an ended process may still be on its way back for
    `settle` seconds.
    """

    patience: float = 300.0
    drain_after: float = 5.0
    settle: float = 3.0


class PendingAllocation:
    """A model that waits for memory; allocations are granted in order of arrival."""

    def __init__(self, run: ModelRun) -> None:
        self.run = run
        self.since = time.monotonic()
        self.needs = MemoryNeeds()
        self.reach = MemoryNeeds()
        """Memory that would be free if all models but the pinned ones were gone."""

    @property
    def waited(self) -> float:
        return time.monotonic() - self.since


class MemoryAllocator:
    """Chooses which models to evict, waits until their memory is free, and grants allocations in
    order.

    If busy models hold the memory, a start waits until they are idle. Other starts may overtake it
    for a while; then the models it waits for accept no new requests and its memory is reserved, so
    that two busy models cannot starve a third.
    """

    def __init__(
        self,
        runs: Callable[[], Sequence[ModelRun]],
        prepare: Preparer,
        memory: MemoryReader,
        *,
        limit: MemoryNeeds,
        times: AllocationTimes,
        speech: Callable[[], SpeechMemory] = SpeechMemory,
        end_idle_speech: Callable[[], object] = lambda: None,
    ) -> None:
        """`limit` bounds all models together, `speech` included; 0 is no limit."""
        self._runs = runs
        self._prepare = prepare
        self.ledger = MemoryLedger(runs, memory, limit, speech)
        self._times = times
        self._end_idle_speech = end_idle_speech
        self._ended_at = -math.inf
        self._allocating = asyncio.Lock()
        self._pending: list[PendingAllocation] = []
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake waiting allocations after a change."""
        self._changed.set()

    def ended(self) -> None:
        """Note that a process has ended; its memory is freed shortly."""
        self._ended_at = time.monotonic()

    def available(self) -> MemoryNeeds:
        """Return the memory that a model can have if idle ones are evicted; safe in any thread."""
        both = self._with_evictable(self.ledger.free(), None)
        others = tuple(max(0, each) for each in both.other_gpus)
        return MemoryNeeds(max(0, both.host), max(0, both.gpu), others)

    def plan_instead(self, run: ModelRun, options: LoadOptions) -> tuple[LoadPlan, MemoryNeeds]:
        """Return how the model would be loaded in place of its run, and the memory for that.

        Blocking; raises the planner's errors.
        """
        available = self._with_evictable(self.ledger.free() + run.needs, run)
        return self._prepare(run.model, options, available=available), available

    async def take(self, run: ModelRun) -> LoadSpec:
        """Wait for memory and return how to load the run; the memory is then allocated to it.

        Raises `MemoryExhausted`, `MemoryBusy` after `patience`, and the planner's errors.
        """
        pending = PendingAllocation(run)
        self._pending.append(pending)
        try:
            while True:
                self._changed.clear()
                async with self._allocating:
                    load_plan, eviction = await self._try_allocate(pending)
                if eviction is None:
                    return load_plan.spec
                if pending.waited >= self._times.patience:
                    raise self._busy(run, load_plan.needs, eviction)
                self._drain_blockers(pending, eviction)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _RETRY_SECONDS)
        finally:
            self._pending.remove(pending)
            self.notify()

    async def wait_for(self, run: ModelRun) -> bool:
        """Wait until memory that a run held is free again, to be allocated to the same run."""
        return await wait_for_release(
            run.needs, lambda: self.ledger.free() + run.needs, patience=RELEASE_PATIENCE
        )

    async def evict_for_pressure(self, why: str) -> list[ModelRun]:
        """Evict idle models until all allocated memory exists; return them."""
        async with self._allocating:
            free = await asyncio.to_thread(self.ledger.free)
            others = tuple(int(each < 0) for each in free.other_gpus)
            short = MemoryNeeds(int(free.host < 0), int(free.gpu < 0), others)
            # Evict everything idle even if that is not enough: any freed memory helps.
            residents = self._residents(None)
            eviction = plan_eviction(short, residents, free)
            evictable = [o.key for o in residents if o.is_evictable]
            keys = eviction.evict if eviction.fits else evictable
            return await self._end(keys, why) if short else []

    async def _try_allocate(
        self, pending: PendingAllocation
    ) -> tuple[LoadPlan, EvictionPlan | None]:
        """Try to allocate now; the eviction plan is returned if models have to finish first."""
        run = pending.run
        load_plan = await self._plan(run)
        needs = load_plan.needs
        await self._trim(needs)
        tries = 0
        while True:
            free = await self._stable_free()
            residents = self._residents(run)
            eviction = plan_eviction(needs, residents, free)
            pending.needs = needs
            pending.reach = sum((o.needs for o in residents if not o.pinned), free)
            if self._must_wait(pending, eviction):
                return load_plan, eviction
            if not eviction.fits or tries == TRIES:
                raise self._exhausted(run, needs, eviction)
            await self._end(eviction.evict, f"Unloaded to make room for {run.model.name}.")
            if await wait_for_release(needs, self.ledger.free, patience=RELEASE_PATIENCE):
                run.needs, run.spec, run.reason = needs, load_plan.spec, load_plan.reason
                run.reclaimable = load_plan.reclaimable
                run.longest_context = load_plan.longest_context
                return load_plan, None
            tries += 1  # another program took the memory that was freed

    async def _plan(self, run: ModelRun) -> LoadPlan:
        free = await asyncio.to_thread(self.ledger.free)
        reachable = self._with_evictable(free, run)
        best = await asyncio.to_thread(self._prepare, run.model, run.options, available=reachable)
        if best.needs.fits_in(free):
            return best
        coexisting = await asyncio.to_thread(self._prepare, run.model, run.options, available=free)
        enough = min(best.spec.context, COMFORTABLE_CONTEXT) <= coexisting.spec.context
        placements = {
            (plan.spec.engine, plan.spec.device, plan.spec.gpu_layers, plan.spec.draft_path)
            for plan in (best, coexisting)
        }
        fits = coexisting.needs.fits_in(free)
        return coexisting if enough and fits and len(placements) == 1 else best

    def _must_wait(self, pending: PendingAllocation, eviction: EvictionPlan) -> bool:
        for other in self._pending[: self._pending.index(pending)]:
            # It may take memory that is left over, but none that an earlier waiting start needs.
            leaves_enough = other.needs.fits_in(other.reach - pending.needs)
            if other.waited >= self._times.drain_after and (eviction.evict or not leaves_enough):
                return True
        if eviction.fits:
            return False
        # Memory that a starting model has already taken may be counted twice until it is ready, and
        # that of an ended one may not be free yet.
        starting = (r.state is ModelState.STARTING for r in self.ledger.holders(pending.run))
        settles = time.monotonic() < self._ended_at + self._times.settle
        return bool(eviction.blockers) or any(starting) or settles

    def _drain_blockers(self, pending: PendingAllocation, eviction: EvictionPlan) -> None:
        """Publish what the start waits for, and after `drain_after` seconds drain those models."""
        names = [run.model.name for run in self._named(eviction.blockers)]
        waits_for = f"until {_enumerate(names)} can be unloaded" if names else "for its turn"
        if pending is self._pending[0] and not names:
            waits_for = "until freed memory is available"
        pending.run.set_reason(f"Waits {waits_for} to have the memory it needs.")
        if pending.waited >= self._times.drain_after and pending is self._pending[0]:
            for run in self._named(eviction.blockers):
                if not run.is_ending and run.state is ModelState.READY:
                    name = pending.run.model.name
                    log.info(
                        "%s accepts no new requests because %s waits for its memory",
                        run.model.name,
                        name,
                    )
                    run.request_stop(f"Unloads to make room for {name}, which has waited.")

    async def _stable_free(self) -> MemoryNeeds:
        """Return the free memory, read while nothing that it is computed from changes."""
        while True:
            before = self.ledger.states()
            free = await asyncio.to_thread(self.ledger.free)
            if self.ledger.states() == before:
                return free

    async def _end(self, keys: Sequence[str], why: str) -> list[ModelRun]:
        is_ending = self._named(keys)
        for run in is_ending:
            run.request_stop(why)
        await asyncio.gather(*(run.until_ended() for run in is_ending))
        return is_ending

    async def _trim(self, needed: MemoryNeeds) -> None:
        """Before evicting, free caches that workers keep only to save computation."""
        backends = [run.backend for run in self._runs() if run.backend is not None]
        holders = [backend for backend in backends if backend.gauges.kv_memory_bytes]
        if holders and self.ledger.free().host < needed.host:
            for backend in holders:
                backend.trim()
            await wait_for_release(needed, self.ledger.free, patience=TRIM_PATIENCE)
        if self.ledger.free().host < needed.host:
            self._end_idle_speech()

    def _residents(self, wanted: ModelRun | None) -> list[ResidentModel]:
        return [self.ledger.resident(run) for run in self.ledger.holders(wanted)]

    def _with_evictable(self, free: MemoryNeeds, wanted: ModelRun | None) -> MemoryNeeds:
        """Return `free` and the memory of all models that can be evicted for `wanted`."""
        return sum((o.needs for o in self._residents(wanted) if o.is_evictable), free)

    def _named(self, keys: Sequence[str]) -> list[ModelRun]:
        return [run for run in self.ledger.holders(None) if run.key in keys]

    def _exhausted(self, run: ModelRun, needs: MemoryNeeds, eviction: EvictionPlan) -> Exception:
        numbers = _shortage(run.model.name, needs, eviction.free_after)
        if eviction.pinned:
            names = [pinned.model.name for pinned in self._named(eviction.pinned)]
            return MemoryExhausted(
                f"{numbers}, because {_enumerate(names)} cannot be unloaded while pinned.",
                hint=f"Unpin it with `ingle load {names[0]} --no-pin`.",
            )
        hint = "Choose a smaller model or context, or close other programs."
        if self.ledger.limited:
            hint = "Choose a smaller model or context, or raise `memory_limit` or `vram_limit`."
        return MemoryExhausted(f"{numbers}.", hint=hint)

    def _busy(self, run: ModelRun, needs: MemoryNeeds, eviction: EvictionPlan) -> MemoryBusy:
        names = [blocker.model.name for blocker in self._named(eviction.blockers)]
        why = f"because {_enumerate(names)} cannot be unloaded while in use" if names else ""
        numbers = _shortage(run.model.name, needs, eviction.free_after)
        return MemoryBusy(
            f"{numbers}, {why or 'and others wait as well'}.",
            hint="Try again when it has finished.",
            headers={"retry-after": "5"},
        )


def _shortage(name: str, needs: MemoryNeeds, free: MemoryNeeds) -> str:
    short = needs.shortage_in(free)
    return (
        f"The model '{name}' needs {short.needed / 1e9:.1f} GB of {short.kind}, "
        f"and {short.free / 1e9:.1f} GB can be freed now"
    )


def _enumerate(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"
