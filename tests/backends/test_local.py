"""A model in a thread of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import LoadFailed, WorkerDied
from ingle.backends.base.events import Delta
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from tests.harness.local_backend import LocalBackend

MakeSpec = Callable[..., LoadSpec]


async def test_an_answer_and_the_end(scripted_spec: MakeSpec) -> None:
    backend = LocalBackend(scripted_spec(reply="hello"))
    await backend.start()
    request = GenerateRequest(id="r", prompt="Hi")
    events = [event async for event in stream_events(backend, request)]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "hello"
    await backend.stop()
    assert str(await backend.wait_dead()) == "The model was unloaded."
    with pytest.raises(WorkerDied):
        await anext(stream_events(backend, request))


async def test_a_load_failure_says_why(scripted_spec: MakeSpec) -> None:
    with pytest.raises(LoadFailed, match="stale"):
        await LocalBackend(scripted_spec(load_error="The weights are stale.")).start()


async def test_any_other_failure_ends_the_start_too() -> None:
    spec = LoadSpec(engine="scripted", path="", context=64, script="{broken")
    backend = LocalBackend(spec)
    with pytest.raises(WorkerDied, match="DecodeError"):
        await asyncio.wait_for(backend.start(), 10)
    assert "DecodeError" in str(await asyncio.wait_for(backend.wait_dead(), 10))
