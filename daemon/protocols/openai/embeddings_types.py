"""The wire types of OpenAI's embeddings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_INPUTS = 2048

Dimensions = Annotated[int, Meta(ge=1, le=2**20)]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/embeddings`; `truncate` is ingle's extension."""

    model: Annotated[str, Meta(min_length=1)]
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Dimensions | None = None
    user: Any = None
    truncate: bool | None = None


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """One vector: numbers, or base64 of them as float32 with the lowest byte first."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class PromptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens really processed, the marks around each text included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: PromptUsage
