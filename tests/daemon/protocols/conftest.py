"""Fixtures for the protocol tests: malformed request bodies and backends with given events."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, cast

import httpx
import msgspec
import pytest

from ingle.backends.base.events import Event, EventSink
from ingle.backends.base.requests import GenerateRequest
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

Json = Any
FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

CONCURRENCY = 8
DEEP = b"[" * 1000 + b"]" * 1000
DEEP_OBJECT = b'{"a":' * 1000 + b"1" + b"}" * 1000
LONG = b'"' + b"a" * 10_000_000 + b'"'

# Values that Python's JSON encoder cannot write have placeholders, replaced after encoding.
RAW_VALUES = {
    "@deep": DEEP,
    "@deep object": DEEP_OBJECT,
    "@bare surrogate": b'"\xed\xa0\x80"',
    "@latin": b'"\xe9"',
    "@nan": b"NaN",
    "@infinity": b"-Infinity",
    "@huge": b"1" * 400,
    "@exponent": b"1e999",
    "@control": b'"a\x00b"',
}
VALUES: tuple[Json, ...] = (
    *(None, True, False, 0, -1, 1, 3, 17, 0.5, -0.5, 1e308, 5e-324, 2**31, 2**53 + 1, 2**64),
    *(-(2**63) - 1, "", " ", "x", "1", "null", "\x00", "\ud800", "\udfff\ud800", "é\u202e🦙"),
    *("assistant", "tool", "system", "function", "json_schema", "required", "none", "auto"),
    *([], {}, [[]], [{}], [None], [1, "a"], ["", ""], [0] * 300, {"": None}, {"type": "x"}),
    *({"type": None}, {"type": "function"}, {"name": 1}, {"content": []}, [{"type": "text"}]),
    *({"$ref": "#"}, {"type": "object", "properties": {"a": {"$ref": "#"}}}, "a" * 70_000),
    *RAW_VALUES,
)
INVALID_BODIES: tuple[bytes, ...] = (
    *(
        b"",
        b"{",
        b"[",
        b"null",
        b"0",
        b'"x"',
        b"[]",
        b"{}",
        b"{]",
        b"{,}",
        b"nul",
        b"\x00",
        b"\xff",
    ),
    *(b"{'a': 1}", b'{"a" 1}', b"\xfe\xff\x00{", b'{"a": 1}}', b"<xml/>", b"model=x", b"NaN"),
    *(DEEP, DEEP_OBJECT, DEEP[:1000], DEEP_OBJECT[:5000], LONG, b'{"\xed\xa0\x80": 1}'),
)


def value_paths(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside."""
    if isinstance(value, dict):
        items = list(cast("dict[str, Json]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Json]", value)))
    else:
        items = []
    for key, inner in items:
        yield (*path, key)
        yield from value_paths(inner, (*path, key))


def mutate(body: Json, rng: random.Random) -> None:
    """Change, remove or add one value somewhere inside."""
    *parents, last = rng.choice(list(value_paths(body)))
    parent = body
    for key in parents:
        parent = parent[key]
    match rng.randrange(10):
        case 0:
            del parent[last]
        case 1:
            parent[last] = [parent[last]]
        case 2:
            parent[last] = {"type": parent[last]}
        case 3 if isinstance(parent, list):
            cast("list[Json]", parent).append(deepcopy(rng.choice(VALUES)))
        case _:
            parent[last] = deepcopy(rng.choice(VALUES))


def encode_body(body: Json) -> bytes:
    """Encode the body, with the raw values in place of their placeholders."""
    content = json.dumps(body).encode()
    for name, raw_value in RAW_VALUES.items():
        content = content.replace(json.dumps(name).encode(), raw_value)
    return content


def malformed_bodies(
    examples: list[dict[str, Any]], count: int, seed: int
) -> Iterator[tuple[bytes, bool]]:
    """`count` bodies mutated from valid ones, and whether each must be refused.

    A few contain ten million characters, as a value and as a field name.
    """
    rng = random.Random(seed)
    for content in INVALID_BODIES:
        yield content, True
    for example in examples:
        yield (
            encode_body({**example, next(iter(example)): "@long"}).replace(b'"@long"', LONG),
            False,
        )
        yield encode_body({**example, "@long": 1}).replace(b'"@long"', LONG), False
    for _ in range(count - len(INVALID_BODIES) - 2 * len(examples)):
        body = deepcopy(rng.choice(examples))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            if body:
                mutate(body, rng)
        content = encode_body(body)
        if rng.random() < 0.1:
            at = rng.randrange(len(content))
            content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        yield content, False


@pytest.fixture
def fuzz_endpoint(tries: Callable[[int], None]) -> FuzzEndpoint:
    """Sends malformed bodies to an endpoint; returns the number of responses by status.

    `is_error` raises if an error does not have the protocol's shape. `examples` are valid bodies,
    preferably with every field that clients send, and with short answers. An endpoint that
    `may_be_empty` requires no field.
    """

    async def run(
        daemon: RunningDaemon,
        path: str,
        examples: list[dict[str, Any]],
        is_error: Callable[[Any], None],
        *,
        count: int = 1000,
        seed: int = 20260930,
        headers: dict[str, str] | None = None,
        may_be_empty: bool = False,
    ) -> Counter[int]:
        statuses: Counter[int] = Counter()
        gate = asyncio.Semaphore(CONCURRENCY)
        head = {"content-type": "application/json", **(headers or {})}

        async def send(content: bytes, must_fail: bool) -> None:
            async with gate:
                answer = await daemon.unix.post(path, content=content, headers=head)
            must_fail = must_fail and not (may_be_empty and content == b"{}")
            _check_response(answer, content[:2000], must_fail, is_error)
            statuses[answer.status_code] += 1

        async with asyncio.TaskGroup() as group:
            for content, must_fail in malformed_bodies(examples, count, seed):
                group.create_task(send(content, must_fail))
        tries(statuses.total())
        return statuses

    return run


def _check_response(
    answer: httpx.Response, content: bytes, must_fail: bool, is_error: Callable[[Any], None]
) -> None:
    assert answer.status_code < 500, (answer.status_code, answer.text, content)
    assert "internal_error" not in answer.text, (answer.text, content)
    if answer.status_code >= 400:
        try:
            is_error(answer.json())
        except Exception as error:
            raise AssertionError(f"{answer.text} for {content!r}") from error
    else:
        assert not must_fail, content


class EventBackend(LocalBackend):
    """A backend that answers every request with the given events and records the requests."""

    events: ClassVar[list[Event]]
    requests: ClassVar[list[GenerateRequest]]

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        self.requests.append(request)
        for event in self.events:
            sink([msgspec.structs.replace(event, id=request.id)])


@pytest.fixture
def event_backend() -> Callable[..., type[EventBackend]]:
    """Makes a `create_backend` for `run_daemon` that answers with the given events.

    Its `requests` are those that reached the backend.
    """

    def make(*events: Event) -> type[EventBackend]:
        return type("Answering", (EventBackend,), {"events": list(events), "requests": []})

    return make
