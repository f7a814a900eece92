"""Erases data from a running daemon, with its memory and open files."""

from __future__ import annotations

import asyncio
import time

import msgspec

from ..batches.batch_manager import BatchManager
from ..documents.document_library import DocumentLibrary
from ..generations.generation_registry import GenerationRegistry
from ..lifecycle.model_manager import ModelManager
from ..routing.router import Router
from ..settings.config import Config
from ..stores.response_store import ResponseStore
from ..warming.slot_prompts import SlotPrompts
from .erasure import MARKS, ErasureResult, ErasureSelection, erase, places_for
from .forget_request import MEMORY, ForgetRequest, Forgotten, check, selection_of


class Forgetter:
    """Serialised: one erasure at a time has exclusive use of the stores."""

    def __init__(
        self,
        config: Config,
        manager: ModelManager,
        generations: GenerationRegistry,
        batches: BatchManager,
        responses: ResponseStore,
        router: Router,
        documents: DocumentLibrary,
        slots: SlotPrompts,
    ) -> None:
        self._config = config
        self._manager = manager
        self._generations = generations
        self._batches = batches
        self._responses = responses
        self._router = router
        self._documents = documents
        self._slots = slots
        self._alone = asyncio.Lock()

    async def forget(self, request: ForgetRequest) -> Forgotten:
        """Erase, or with `dry_run` only count.

        Raises `InvalidBody`, `StorageFull`, and `OSError` if a file cannot be removed.
        """
        check(request)
        async with self._alone:
            await self._responses.flush()
            selection = await asyncio.to_thread(selection_of, request, self._config.paths)
            places = places_for(selection, request.places)
            touched = {place.name for place in places}
            from_memory = not selection.ids and (not request.places or MEMORY in request.places)
            left: list[str] = []
            unloaded: list[str] = []
            if not request.dry_run:
                if "batches" in touched:
                    await self._end_batches(selection, left)
                    # A batch that has ended just now has left files.
                    selection = await asyncio.to_thread(selection_of, request, self._config.paths)
                if "documents" in touched:
                    await self._documents.close()
                if from_memory or "kv" in touched:
                    self._slots.clear()
                    selection, unloaded = await self._unload_idle(selection, left)
                await self._responses.flush()
                # The router has the file of the marks open, and erases them itself.
                places = [place for place in places if place.name != MARKS]
            erased = await asyncio.to_thread(
                erase, self._config, selection, places, dry_run=request.dry_run
            )
            if not request.dry_run:
                erased += await self._forget_routing(marks=MARKS in touched)
            if "responses" in touched and not request.dry_run:
                await self._responses.reset()
            if from_memory:
                self._forget_answers(selection, erased, dry_run=request.dry_run)
            return Forgotten(dry_run=request.dry_run, erased=erased, unloaded=unloaded, left=left)

    async def _forget_routing(self, *, marks: bool) -> list[ErasureResult]:
        count = await asyncio.to_thread(self._router.forget, marks=marks)
        what = "marks of conversations that hold something sensitive"
        return [ErasureResult(place=MARKS, what=what, count=count)] if count else []

    async def _end_batches(self, selection: ErasureSelection, left: list[str]) -> None:
        try:
            await self._batches.cancel_all(selection.covers)
        except TimeoutError:
            left.append("A batch is still running, so it is kept: cancel it, then erase it again.")

    async def _unload_idle(
        self, selection: ErasureSelection, left: list[str]
    ) -> tuple[ErasureSelection, list[str]]:
        """Unload idle models; the KV that they write at their end has to be erased, too."""
        began = time.time()
        unloaded: list[str] = []
        for model in self._manager.models():
            run = self._manager.find(model)
            if run is not None and run.leases == 0 and run.waiters == 0:
                unloaded += await self._manager.unload(model.name)
            elif run is not None:
                left.append(
                    f"{model.name} is in use: its cache in memory stays until it is unloaded."
                )
        return msgspec.structs.replace(selection, at_latest=began), unloaded

    def _forget_answers(
        self, selection: ErasureSelection, erased: list[ErasureResult], *, dry_run: bool
    ) -> None:
        answers = self._generations.forget(selection.covers, dry_run=dry_run)
        if answers:
            what = "answers in the daemon's memory that a chat could have resumed"
            erased.append(ErasureResult(place=MEMORY, what=what, count=answers))
