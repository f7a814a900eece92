"""Embeds passages and questions with an embedding model of this machine."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from ingle.backends.base.errors import BackendError
from ingle.backends.base.requests import EmbedRequest, Priority
from ingle.models.errors import ModelError
from ingle.models.model_task import ModelTask

from ..errors import QueueFull, RequestError
from ..machine.power_source import on_battery

if TYPE_CHECKING:
    from ingle.models.metadata.stored_model import StoredModel

    from ..lifecycle.model_manager import ModelManager
    from ..machine.memory_reader import MemoryReader
    from .index_protocol import PendingPassages

log = logging.getLogger("ingle.daemon")

AT_ONCE = 32
"""Passages of one request: few enough that others do not wait long."""
_PAUSE = 1.0
_SPARE = 2**30
"""Bytes that have to stay free where a model is loaded only for this."""
_PREFIXES = {
    "nomic-embed": ("search_document: ", "search_query: "),
    "e5-": ("passage: ", "query: "),
    "embeddinggemma": ("title: none | text: ", "task: search result | query: "),
    "qwen3-embedding": (
        "",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
        "Query:",
    ),
}
"""What models were trained to read before passages and questions, by parts of their names."""


class PassageEmbedder:
    """For the event loop only."""

    def __init__(
        self,
        manager: ModelManager,
        list_models: Callable[[], list[StoredModel]],
        memory: MemoryReader,
        is_answering: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._list_models = list_models
        self._memory = memory
        self._is_answering = is_answering
        self._turn = asyncio.Lock()

    async def choose(self, earlier: str) -> str:
        """Return the model to embed with: the `earlier` one if it is still here; "" for none.

        Else a loaded one, else the smallest, if it fits beside what is loaded.
        """
        models = {model.name: model for model in await asyncio.to_thread(self._embedding_models)}
        if earlier in models:
            return earlier
        loaded = {model.name for model in self._manager.models()}
        for name in sorted(models, key=lambda name: (name not in loaded, models[name].size)):
            if name in loaded or await asyncio.to_thread(self._fits, models[name]):
                return name
        return ""

    async def embed_question(self, model: str, question: str) -> tuple[str, bytes]:
        """Return the model and the question's vector; both are empty where that is impossible."""
        if not model:
            return "", b""
        try:
            vectors = await self._vectors(
                model, [_prefix(model, 1) + question], Priority.INTERACTIVE
            )
        except (RequestError, BackendError, ModelError) as error:
            log.info("A question is compared by words only: %s", error.message)
            return "", b""
        return model, vectors

    async def embed(
        self, model: str, pending: PendingPassages
    ) -> AsyncGenerator[tuple[list[bytes], bytes]]:
        """Yield digests and vectors, whenever no request is answered and there is mains power."""
        prefix = _prefix(model, 0)
        for start in range(0, len(pending.digests), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            texts = [prefix + text.strip() for text in pending.texts[part]]
            async with self._turn:
                while self._is_answering() or await asyncio.to_thread(on_battery):  # noqa: ASYNC110
                    await asyncio.sleep(_PAUSE)
                vectors = await self._patiently(model, texts)
            yield pending.digests[part], vectors

    async def _patiently(self, model: str, texts: list[str]) -> bytes:
        while True:
            try:
                return await self._vectors(model, texts, Priority.BATCH)
            except QueueFull:
                await asyncio.sleep(_PAUSE)

    async def _vectors(self, model: str, texts: list[str], priority: Priority) -> bytes:
        async with self._manager.lease(model, task=ModelTask.EMBED, priority=priority) as lease:
            request = EmbedRequest(
                id=f"embd-{secrets.token_hex(12)}", inputs=list(texts), truncate=True
            )
            return (await lease.backend.embed(request)).vectors

    def _embedding_models(self) -> list[StoredModel]:
        return [model for model in self._list_models() if model.task is ModelTask.EMBED]

    def _fits(self, model: StoredModel) -> bool:
        return self._memory().usable.host > 2 * model.size + _SPARE


def _prefix(model: str, side: int) -> str:
    found = (pair for part, pair in _PREFIXES.items() if part in model.lower())
    return next(found, ("", ""))[side]
