"""Asks a provider which models it serves."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from ingle.models.struct_preparation import prepared

from .errors import ProviderMisbehaved, ProviderUnreachable
from .http_client import HttpResponse, exchange
from .metered_connection import Meter
from .provider_refusal import refusal_from
from .providers import Provider
from .remote_backend import request_headers

_LARGEST = 2**20
_SECONDS = 20.0


class ServedModel(msgspec.Struct, frozen=True):
    """A model in a server's list; vLLM, SGLang and ingle say its context in tokens."""

    id: str
    max_model_len: int | None = None


class _ModelList(msgspec.Struct):
    data: list[ServedModel]


async def list_served_models(
    provider: Provider, key: str | None, meter: Meter
) -> list[ServedModel]:
    """Return the models of `GET /models`; raises `RemoteError`."""
    headers = request_headers(provider.kind, key, accept="application/json")
    try:
        async with (
            asyncio.timeout(_SECONDS),
            exchange(provider, "/models", headers, b"", meter, method="GET") as answer,
        ):
            if answer.status != 200:
                raise await refusal_from(answer, provider, key)
            body = await _body(answer)
    except TimeoutError:
        raise ProviderUnreachable(
            f"The provider did not list its models within {_SECONDS:g} seconds."
        ) from None
    try:
        return msgspec.json.decode(body, type=prepared(_ModelList)).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProviderMisbehaved("The provider's answer is not a list of models.") from None


async def _body(answer: HttpResponse) -> bytes:
    body = b""
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > _LARGEST:
                raise ProviderMisbehaved("The provider's list of models does not end.")
    return body
