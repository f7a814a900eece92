"""Erases expired data, and what killed processes left, while the daemon runs."""

from __future__ import annotations

import asyncio
import logging
import time

from ..batches.batch_manager import BatchManager
from ..batches.batch_record import BatchRecord
from ..settings.config import Config
from ..stores.atomic_file import remove_unfinished
from ..stores.response_store import ResponseStore
from .chat_eraser import ChatEraser
from .data_inventory import DATA_INVENTORY, KEEP_DOCUMENTS
from .erasure import ErasureResult, ErasureSelection, erase

log = logging.getLogger("ingle.daemon")

FIRST_AFTER = 60.0
INTERVAL = 3600.0
MOST_AT_ONCE = 2000
"""Items per store that are erased in one round; the next round continues."""


class RetentionKeeper:
    """Runs a minute after the start, then every hour.

    Data of running batches is kept, and so are encrypted chats, which only their owner can unlock.
    """

    def __init__(
        self,
        config: Config,
        batches: BatchManager,
        responses: ResponseStore,
        *,
        first_after: float = FIRST_AFTER,
        interval: float = INTERVAL,
    ) -> None:
        self._config = config
        self._batches = batches
        self._responses = responses
        self._first_after = first_after
        self._interval = interval

    async def run(self) -> None:
        """Run until cancelled; what cannot be erased is retried in the next round."""
        await asyncio.sleep(self._first_after)
        while True:
            try:
                for erased in await self.round():
                    log.info("Retention over: %d of %s erased", erased.count, erased.place)
            except Exception as error:
                log.warning("Expired data cannot be erased: %r", error)
            await asyncio.sleep(self._interval)

    async def round(self) -> list[ErasureResult]:
        """Run one round; return what was erased."""
        batches = await self._batches.list()
        running = frozenset(
            name
            for batch in batches
            if not batch.status.ended
            for name in (batch.id, batch.input_file_id)
        )
        await self._responses.flush()
        await self._delete_expired(batches)
        erased = await asyncio.to_thread(self._erase, running)
        if any(each.place == "responses" for each in erased):
            await self._responses.reset()
        return erased

    async def _delete_expired(self, batches: list[BatchRecord]) -> None:
        """Delete message batches with their files, which their clients do not know."""
        before = time.time() - self._config.keep_batches
        for batch in batches if self._config.keep_batches >= 0 else ():
            if batch.kind == "msgbatch" and batch.ended_at is not None and batch.ended_at < before:
                await self._batches.delete(batch.id)

    def _erase(self, running: frozenset[str]) -> list[ErasureResult]:
        config, now = self._config, time.time()
        periods = {
            "responses": config.keep_responses,
            "batches": config.keep_batches,
            "kv": config.keep_kv,
            "documents": KEEP_DOCUMENTS,
        }
        erased: list[ErasureResult] = []
        for place in DATA_INVENTORY:
            if (seconds := periods.get(place.name, -1)) >= 0:
                selection = ErasureSelection(before=now - seconds, but=running)
                erased += erase(config, selection, [place], limit=MOST_AT_ONCE)
        self._batches.files.sweep()
        paths = config.paths
        folders = {paths.config, paths.state, paths.batches, paths.prefixes}
        remove_unfinished({*folders, paths.ledger_head.parent})
        if config.keep_chats >= 0:
            erased += self._erase_chats(now - config.keep_chats)
        return erased

    def _erase_chats(self, before: float) -> list[ErasureResult]:
        folder = self._config.paths.chats
        if not (folder / "history.db").exists():
            return []
        eraser = ChatEraser(folder, lambda _store: None)
        try:
            selection = ErasureSelection(before=before)
            chats = eraser.find(selection)
            return eraser.erase(chats, selection) if chats else []
        finally:
            eraser.close()
