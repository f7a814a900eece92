"""Reads request bodies, and answers with JSON or errors in the format of each API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from ingle.models.struct_preparation import prepared

from ..error_status import describe
from ..errors import (
    AnthropicError,
    BodyTimeout,
    BodyTooLarge,
    InvalidBody,
    LlamaCppError,
    NativeError,
    OllamaError,
    OpenAIError,
    Problem,
    UnsupportedMediaType,
)
from .body_check import check_body, without_lone_surrogates
from .field_policy import IgnoredField, ignored_fields, is_served, strict_kind
from .off_loop import off_loop

IDLE_SECONDS = 30.0
GRACE_SECONDS = 20.0
LEAST_RATE = 500
"""Bytes per second at which a body must arrive on average, after the grace period."""

IGNORED = "ingle.ignored_fields"
"""The key of the ASGI scope that holds the fields without effect."""
BODY_BYTES = "ingle.body_bytes"
"""The key of the ASGI scope that holds the size of the body."""

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<what>.*) - at (?:`key` in )?`(?:key in )?(?P<where>\$.*)`$", re.DOTALL)
_NOT_LISTED = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_SHOWN = 80
"""Characters that an error shows of a value."""
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")


class ClientLeft(Exception):
    """The client has closed the connection, so the request needs no answer."""


async def read_chunks(
    request: Request, limit: int, *, setting: str = "max_body_bytes"
) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; raises `BodyTooLarge`, `BodyTimeout` or `ClientLeft`."""
    clock = asyncio.get_running_loop().time
    size, waited = 0, 0.0
    while True:
        # Only waiting counts: the time that the daemon takes for a chunk is not the client's.
        patience = min(IDLE_SECONDS, GRACE_SECONDS + size / LEAST_RATE - waited)
        began = clock()
        try:
            async with asyncio.timeout(patience):
                message = await request.receive()
        except TimeoutError:
            raise BodyTimeout(
                f"The body came too slowly: {size} bytes in {waited + patience:.0f} seconds.",
                headers={"connection": "close"},
            ) from None
        waited += clock() - began
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            # The server drops the rest as it arrives: closing now would lose the response.
            raise BodyTooLarge.above(limit, setting)
        yield chunk
        if not message.get("more_body", False):
            return


async def read_json(request: Request, kind: type[T], *, if_empty: bytes = b"") -> T:
    """The typed body, `if_empty` for an empty one.

    Its fields without effect are noted in the scope, for the response's header. Raises what
    `read_chunks` and `parse_served` raise, and `UnsupportedMediaType` for a compressed body.
    """
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise UnsupportedMediaType(
            f"The body is compressed ({coding[:40]}), which is not supported.",
            hint="Send it as it is, without Content-Encoding.",
        )
    limit: int = request.app.state.max_body_bytes
    chunks = [chunk async for chunk in read_chunks(request, limit)]
    size = request.scope[BODY_BYTES] = sum(map(len, chunks))
    value, ignored = await off_loop(size, lambda: parse_served(b"".join(chunks) or if_empty, kind))
    note_ignored(request, ignored)
    return value


def note_ignored(request: Request, fields: list[IgnoredField]) -> None:
    """Add fields without effect to the scope, for the response's header, and count them."""
    if fields:
        request.scope[IGNORED] = [*request.scope.get(IGNORED, ()), *fields]
        request.app.state.ignored_fields.update(field.label for field in fields)


async def translate(request: Request, work: Callable[[], T]) -> T:
    """The result of `work`, which translates the body that `read_json` has read."""
    return await off_loop(request.scope[BODY_BYTES], work)


def parse_served(body: bytes, kind: type[T]) -> tuple[T, list[IgnoredField]]:
    """The typed body, and its fields without effect.

    Raises what `parse` raises, also for a body with too many values, and `UnsupportedField` for a
    field that the type's policy refuses.
    """
    check_body(body)
    body = without_lone_surrogates(body)
    with suppress(msgspec.MsgspecError, RecursionError):
        # Most bodies have served fields only, which decoding shows at once.
        strict = _decoder(strict_kind(kind)).decode(body)
        if is_served(strict, kind):
            return strict, []
        return strict, ignored_fields(body, kind)
    value = parse(body, kind)
    return value, ignored_fields(body, kind)


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(prepared(kind))


def parse(body: bytes, kind: type[T], place: str = "") -> T:
    """The typed body, or its part at `place`; raises `InvalidBody`, with the field at fault."""
    if not body:
        raise InvalidBody("The request has no body.", hint="Send a JSON object.")
    try:
        return _decoder(kind).decode(body)
    except RecursionError as error:
        raise InvalidBody("The body's JSON is nested too deeply.") from error
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error), place, kind) from error
    except msgspec.DecodeError as error:
        raise InvalidBody(f"The body is not JSON: {error}.", hint="Send a JSON object.") from error


def _wrong_type(complaint: str, within: str, kind: type) -> InvalidBody:
    """Turn an error message of msgspec into an error that names the field."""
    place = _PLACE.match(complaint)
    what, where = (place["what"], place["where"]) if place else (complaint, "")
    field = where.removeprefix("$").removeprefix(".")
    if missing := _MISSING.search(what):
        field = f"{field}.{missing['field']}" if field else missing["field"]
    if within:
        field = f"{within}.{field}" if field and not field.startswith("[") else f"{within}{field}"
    if missing:
        return InvalidBody(f"'{field}' is missing.", param=field)
    if value := _NOT_LISTED.fullmatch(what):
        from .allowed_values import allowed_values  # only an error needs it

        if allowed := allowed_values(kind, where):
            hint = (
                f"It must be {' or '.join(filter(None, (', '.join(allowed[:-1]), allowed[-1])))}."
            )
            given = value[1] if len(value[1]) < _SHOWN else f"{value[1][:_SHOWN]}…'"
            return InvalidBody(f"'{field}' is {given}.", hint=hint, param=field)
    what = what.replace("`", "")
    if not field:
        return InvalidBody(f"The body is wrong: {what[:1].lower()}{what[1:]}.")
    return InvalidBody(f"'{field}' is wrong: {what[:1].lower()}{what[1:]}.", param=field)


def query_flag(request: Request, name: str) -> bool:
    """Return the value of a boolean query parameter; raises `InvalidBody` for any other value."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise InvalidBody(f"'{name}' is neither true nor false.", param=name)
    return text in ("true", "1")


async def until_disconnect(receive: Receive) -> None:
    """Return once the client has gone; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def run_until_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`; cancels it and raises `ClientLeft` if the client disconnects first."""
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(until_disconnect(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return await task
    finally:
        await cancel_all([task, watch])


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ErrorFormat(msgspec.Struct, frozen=True):
    """The type of an API's error bodies, and the function that builds one."""

    type: type[msgspec.Struct]
    body: Callable[[Problem], msgspec.Struct]
    event: str | None = None
    """The name of the server-sent event that reports an error; None if events have no names."""

    def frame(self, error: Exception) -> bytes:
        """The server-sent event that reports `error`."""
        return encode_event(msgspec.json.encode(self.body(describe(error))), event=self.event)


NATIVE = ErrorFormat(NativeError, Problem.native, "error")
OPENAI = ErrorFormat(OpenAIError, Problem.openai)
ANTHROPIC = ErrorFormat(AnthropicError, AnthropicError.of, "error")
OLLAMA = ErrorFormat(OllamaError, OllamaError.of)
LLAMA_CPP = ErrorFormat(LlamaCppError, LlamaCppError.of)


class JSONResponse(Response):
    """A response whose body is a value encoded by msgspec."""

    media_type = "application/json"

    def __init__(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(msgspec.json.encode(value), status_code=status, headers=headers)


def error_response(
    problem: Problem, error_format: ErrorFormat, *, close: bool = False
) -> JSONResponse:
    """The response for a failure; `close` ends the connection and drops an unread body."""
    headers = {**problem.headers, **({"connection": "close"} if close else {})}
    body = error_format.body(problem)
    if isinstance(body, AnthropicError):
        headers["request-id"] = body.request_id
    return JSONResponse(body, problem.status, headers)


def encode_event(data: bytes, *, event: str | None = None, id: int | None = None) -> bytes:  # noqa: A002 - the protocol's word
    """One event; `data` is JSON, which has no line break of its own."""
    parts: list[bytes] = []
    if id is not None:
        parts.append(b"id: %d\n" % id)
    if event is not None:
        parts.append(b"event: %s\n" % event.encode())
    parts.append(b"data: " + data + b"\n\n")
    return b"".join(parts)
