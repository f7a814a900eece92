"""Allocates memory to starting models, and evicts idle models if there is too little."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ingle.backends.base.load_spec import LoadSpec
from ingle.models.fit.memory_needs import MemoryNeeds

from ..errors import MemoryBusy, MemoryExhausted
from ..load_planning.load_planner import LoadPlan, Preparer
from ..machine.memory_reader import MIB, MemoryReader, wait_for_release
from ..model_process.model_run import ModelRun, ModelState
from .eviction_plan import EvictionPlan, MemoryDemand, ResidentModel, plan_eviction
from .memory_ledger import MemoryLedger

log = logging.getLogger("ingle.daemon")

RELEASE_PATIENCE = 10.0
TRIM_PATIENCE = 1.0
TRIES = 2
COMFORTABLE_CONTEXT = 8192
"""Tokens; for more that nobody asked for, no other model is unloaded."""
_LOOK_AGAIN = 1.0


@dataclass(frozen=True)
class AllocationTimes:
    """Seconds.

    A model waits `patience` for others to be idle, and after `drain_after` those it waits for take
    no new requests. Until `settle` after a process ended, its memory may be on its way back.
    """

    patience: float = 300.0
    drain_after: float = 5.0
    settle: float = 3.0


class PendingAllocation:
    """A model that waits for memory, in the order of their coming."""

    def __init__(self, run: ModelRun) -> None:
        self.run = run
        self.since = time.monotonic()
        self.needs = MemoryNeeds()
        self.reach = MemoryNeeds()
        """What there would be if everybody but the pinned had gone."""

    @property
    def waited(self) -> float:
        return time.monotonic() - self.since


class MemoryAllocator:
    """Decides who goes for whom, sees that the memory is really back, and keeps the order.

    Where busy models have the memory, a start waits until they are idle. Others may overtake it
    for a while; then those it waits for take no new requests, and nobody else takes what it has to
    have, so that two models in constant use cannot keep a third one out for ever.
    """

    def __init__(
        self,
        runs: Callable[[], Sequence[ModelRun]],
        prepare: Preparer,
        memory: MemoryReader,
        *,
        limit: MemoryNeeds,
        times: AllocationTimes,
    ) -> None:
        """All models together take no more than `limit`, where 0 is no limit."""
        self._runs = runs
        self._prepare = prepare
        self._accounts = MemoryLedger(runs, memory, limit)
        self._times = times
        self._ended_at = -math.inf
        self._placing = asyncio.Lock()
        self._claims: list[PendingAllocation] = []
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Something changed: who waits looks again."""
        self._stirred.set()

    def ended(self) -> None:
        """A process is gone, and its memory comes back in a moment."""
        self._ended_at = time.monotonic()

    def free(self) -> MemoryNeeds:
        """What another model can have without anybody's going; for any thread."""
        return self._accounts.free()

    def available(self) -> MemoryNeeds:
        """What a model can have when the idle ones give way; for any thread."""
        movable = [o for o in self._occupants(None) if not o.busy and not o.pinned]
        both = sum((o.needs for o in movable), self.free())
        return MemoryNeeds(max(0, both.host), max(0, both.gpu))

    async def take(self, run: ModelRun) -> LoadSpec:
        """How the run is loaded, once it has the memory; it counts as taken from then on.

        Raises `MemoryExhausted`, `MemoryBusy` after `patience`, and what the preparer raises.
        """
        claim = PendingAllocation(run)
        self._claims.append(claim)
        try:
            while True:
                self._stirred.clear()
                async with self._placing:
                    prepared, placement = await self._place(claim)
                if placement is None:
                    return prepared.spec
                if claim.waited >= self._times.patience:
                    raise self._busy(run, prepared.needs, placement)
                self._press(claim, placement)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stirred.wait(), _LOOK_AGAIN)
        finally:
            self._claims.remove(claim)
            self.stir()

    async def wait_for(self, run: ModelRun) -> bool:
        """Wait until what a run held is back, which it is to have once more."""
        return await wait_for_release(
            run.needs, lambda: self.free() + run.needs, patience=RELEASE_PATIENCE
        )

    def is_short(self) -> bool:
        """Whether others took so much that what models were promised is not there."""
        return self._accounts.is_short()

    async def relieve(self, why: str) -> list[ModelRun]:
        """Unload idle models until nothing is promised that is not there; says which."""
        async with self._placing:
            free = await asyncio.to_thread(self.free)
            short = MemoryNeeds(int(free.host < 0), int(free.gpu < 0))
            # All that can go goes, where even that is not enough: it helps whoever took the rest.
            occupants = self._occupants(None)
            placement = plan_eviction(MemoryDemand("others", short), occupants, free)
            movable = [o.key for o in occupants if not o.busy and not o.pinned]
            keys = placement.evict if placement.fits else movable
            return await self._end(keys, why) if short else []

    async def _place(self, claim: PendingAllocation) -> tuple[LoadPlan, EvictionPlan | None]:
        """Take the memory now; a placement says that this is not possible, and who has it."""
        run = claim.run
        prepared = await self._prepared(run)
        needs = prepared.needs
        await self._trim(needs)
        tries = 0
        while True:
            free = await self._settled_free()
            occupants = self._occupants(run)
            placement = plan_eviction(MemoryDemand(run.model.name, needs), occupants, free)
            claim.needs = needs
            claim.reach = sum((o.needs for o in occupants if not o.pinned), free)
            if self._has_to_wait(claim, placement):
                return prepared, placement
            if not placement.fits or tries == TRIES:
                raise self._exhausted(run, needs, placement)
            await self._end(placement.evict, f"Unloaded to make room for {run.model.name}.")
            if await wait_for_release(needs, self.free, patience=RELEASE_PATIENCE):
                run.needs, run.spec, run.reason = needs, prepared.spec, prepared.reason
                return prepared, None
            tries += 1  # somebody else took what came back

    async def _prepared(self, run: ModelRun) -> LoadPlan:
        free = await asyncio.to_thread(self.free)
        movable = [o for o in self._occupants(run) if not o.busy and not o.pinned]
        everything = sum((o.needs for o in movable), free)
        best = await asyncio.to_thread(self._prepare, run.model, run.options, available=everything)
        if best.needs.fits_in(free):
            return best
        beside = await asyncio.to_thread(self._prepare, run.model, run.options, available=free)
        enough = min(best.spec.context, COMFORTABLE_CONTEXT) <= beside.spec.context
        if enough and beside.needs.fits_in(free) and _same_place(best.spec, beside.spec):
            return beside
        return best

    def _has_to_wait(self, claim: PendingAllocation, placement: EvictionPlan) -> bool:
        for other in self._claims[: self._claims.index(claim)]:
            # It may take what is left over, but nothing that one who waits has to have.
            leaves_enough = other.needs.fits_in(other.reach - claim.needs)
            if other.waited >= self._times.drain_after and (placement.evict or not leaves_enough):
                return True
        if placement.fits:
            return False
        # What a model that starts has taken already may be counted twice, until it is ready; and
        # that of one that ended may not be back yet.
        starting = (r.state is ModelState.STARTING for r in self._accounts.holders(claim.run))
        settles = time.monotonic() < self._ended_at + self._times.settle
        return bool(placement.blockers) or any(starting) or settles

    def _press(self, claim: PendingAllocation, placement: EvictionPlan) -> None:
        """Say what is waited for, and after a while see to it that it comes."""
        names = [run.model.name for run in self._named(placement.blockers)]
        waits_for = f"until {_enumerate(names)} can be unloaded" if names else "for its turn"
        if claim is self._claims[0] and not names:
            waits_for = "until what others had is back"
        claim.run.tell(f"Waits {waits_for}, to have the memory it needs.")
        if claim.waited >= self._times.drain_after and claim is self._claims[0]:
            for run in self._named(placement.blockers):
                if not run.leaving and run.state is ModelState.READY:
                    name = claim.run.model.name
                    log.info("%s takes no new requests: %s waits", run.model.name, name)
                    run.request_stop(f"Makes room for {name}, which has waited.")

    async def _settled_free(self) -> MemoryNeeds:
        """What is free, read while nothing changed that it is reckoned from."""
        while True:
            before = self._accounts.states()
            free = await asyncio.to_thread(self.free)
            if self._accounts.states() == before:
                return free

    async def _end(self, keys: Sequence[str], why: str) -> list[ModelRun]:
        leaving = self._named(keys)
        for run in leaving:
            run.request_stop(why)
        await asyncio.gather(*(run.until_ended() for run in leaving))
        return leaving

    async def _trim(self, needed: MemoryNeeds) -> None:
        """Before anybody has to go, take back memory that workers only keep to compute less."""
        backends = [run.backend for run in self._runs() if run.backend is not None]
        holders = [backend for backend in backends if backend.gauges.kv_memory_bytes]
        if holders and self.free().host < needed.host:
            for backend in holders:
                backend.trim()
            await wait_for_release(needed, self.free, patience=TRIM_PATIENCE)

    def _occupants(self, wanted: ModelRun | None) -> list[ResidentModel]:
        return [self._accounts.occupant(run) for run in self._accounts.holders(wanted)]

    def _named(self, keys: Sequence[str]) -> list[ModelRun]:
        return [run for run in self._accounts.holders(None) if run.key in keys]

    def _exhausted(self, run: ModelRun, needs: MemoryNeeds, placement: EvictionPlan) -> Exception:
        numbers = _shortage(run.model.name, needs, placement.free_after)
        if placement.pinned:
            names = [pinned.model.name for pinned in self._named(placement.pinned)]
            return MemoryExhausted(
                f"{numbers}, because {_enumerate(names)} cannot be unloaded while pinned.",
                hint=f"Let go of it with `ingle load {names[0]} --no-pin`.",
            )
        hint = "Choose a smaller model or context, or close other programs."
        if self._accounts.limited:
            hint = "Choose a smaller model or context, or raise `memory_limit` or `vram_limit`."
        return MemoryExhausted(f"{numbers}.", hint=hint)

    def _busy(self, run: ModelRun, needs: MemoryNeeds, placement: EvictionPlan) -> MemoryBusy:
        names = [blocker.model.name for blocker in self._named(placement.blockers)]
        why = f"because {_enumerate(names)} cannot be unloaded while in use" if names else ""
        numbers = _shortage(run.model.name, needs, placement.free_after)
        return MemoryBusy(
            f"{numbers}, {why or 'and others wait as well'}.",
            hint="Try again when it is done.",
            headers={"retry-after": "5"},
        )


def _same_place(one: LoadSpec, other: LoadSpec) -> bool:
    """Whether both run on the same engine and device, with as much on the GPU."""
    return (one.engine, one.device, one.gpu_layers, one.draft_path) == (
        (other.engine, other.device, other.gpu_layers, other.draft_path)
    )


def _shortage(name: str, needs: MemoryNeeds, free: MemoryNeeds) -> str:
    on_gpu = needs.gpu > max(0, free.gpu)
    needed, there = (needs.gpu, free.gpu) if on_gpu else (needs.host, free.host)
    kind = "GPU memory" if on_gpu else "memory"
    return (
        f"The model '{name}' needs {needed // MIB} MiB of {kind}, "
        f"and {max(0, there) // MIB} MiB can be freed now"
    )


def _enumerate(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"
