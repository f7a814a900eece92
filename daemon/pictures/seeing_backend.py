"""Decodes pictures and documents on their way to a model."""

from __future__ import annotations

from msgspec import structs

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.events import Embedded, EventSink, Reranked, Tokenized
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)

from .picture_decoder import PictureDecoder


class SeeingBackend:
    """A backend that takes pictures and documents as files."""

    def __init__(self, backend: RequestBackend, decoder: PictureDecoder) -> None:
        self._backend = backend
        self._decoder = decoder

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`."""
        await self._backend.run(await self._decoder.decoded(request), sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `RequestBackend.embed`."""
        return await self._backend.embed(request)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `RequestBackend.rerank`."""
        return await self._backend.rerank(request)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `RequestBackend.tokenize`."""
        if request.generate is not None:
            decoded = await self._decoder.decoded(request.generate)
            request = structs.replace(request, generate=decoded)
        return await self._backend.tokenize(request)
