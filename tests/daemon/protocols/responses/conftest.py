"""Fixtures for the Responses API: a daemon with a scripted model, and validation of answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ...conftest import RunningDaemon


@cache
def event_type() -> TypeAdapter[Any]:
    """The official type of an event."""
    from openai.types.responses import ResponseStreamEvent

    return TypeAdapter(ResponseStreamEvent)


@cache
def item_type() -> TypeAdapter[Any]:
    """The official type of an item."""
    from openai.types.responses import ResponseItem

    return TypeAdapter(ResponseItem)


@dataclass
class ScriptedModel:
    """The next answer of the model, and the requests it got."""

    events: list[Event] = field(default_factory=list[Event])
    error: Exception | None = None
    requests: list[GenerateRequest] = field(default_factory=list[GenerateRequest])
    gate: Callable[[], Awaitable[object]] | None = None

    @property
    def last_request(self) -> GenerateRequest:
        return self.requests[-1]

    def reply_with(self, *parts: Any, reason: FinishReason = FinishReason.STOP) -> None:
        """Text as str, reasoning as ("think", text), a tool call as ("call", name, *pieces)."""
        new_events: list[Event] = []
        calls = 0
        for part in parts:
            match part:
                case str():
                    new_events.append(Delta("", 0, part, [1]))
                case ("think", text):
                    new_events.append(ReasoningDelta("", 0, text, [1]))
                case ("call", name, *pieces):
                    new_events.append(ToolCallStarted("", 0, calls, f"call_{calls}", name, [1]))
                    new_events += [ToolCallDelta("", 0, calls, piece, [1]) for piece in pieces]
                    calls += 1
                case event:
                    new_events.append(event)
        reasoning_count = sum(isinstance(event, ReasoningDelta) for event in new_events)
        end = Finished("", 0, reason, len(new_events), reasoning_tokens=reasoning_count)
        self.events = [*new_events, end]


class ScriptedBackend(LocalBackend):
    """The scripted engine, but it answers with the scripted events if there are any."""

    def __init__(self, spec: LoadSpec, model: ScriptedModel) -> None:
        super().__init__(spec)
        self._model = model

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        model = self._model
        model.requests.append(request)
        if model.error is not None:
            raise model.error
        if not model.events:
            await super().run(request, sink)
            return
        sink([Started(request.id, 10, 4)])
        for event in model.events:
            if model.gate is not None:
                await model.gate()
            sink([event])


@dataclass
class ScriptedDaemon:
    """A daemon and its scripted model."""

    daemon: RunningDaemon
    model: ScriptedModel

    async def post(self, body: dict[str, Any], status: int = 200, **kwargs: Any) -> Any:
        """The response to a request, validated against the official types."""
        from openai.types.responses import Response

        answer = await self.daemon.unix.post(
            "/v1/responses", json={"model": "echo:1", "input": "Hi", **body}, **kwargs
        )
        assert answer.status_code == status, answer.text
        answer_body = answer.json()
        if status == 200:
            Response.model_validate(answer_body)
        return answer_body

    async def stream(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream, each validated, in the order of their numbers."""
        events = await self.daemon.events(
            "POST", "/v1/responses", json={"model": "echo:1", "input": "Hi", "stream": True, **body}
        )
        for number, (name, data) in enumerate(events):
            event_type().validate_python(data)
            assert name == data["type"]
            assert data["sequence_number"] == number
        return [data for _, data in events]

    async def get(self, path: str, status: int = 200, **kwargs: Any) -> Any:
        answer = await self.daemon.unix.get(f"/v1/responses/{path}", **kwargs)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def run_scripted(
    run_daemon: Callable[..., AbstractAsyncContextManager[RunningDaemon]],
) -> Callable[..., AbstractAsyncContextManager[ScriptedDaemon]]:
    """Starts such a daemon; a second one in the same test uses the same folders."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncGenerator[ScriptedDaemon]:
        model = ScriptedModel()
        create = partial(ScriptedBackend, model=model)
        async with run_daemon(create_backend=create, **settings) as daemon:
            yield ScriptedDaemon(daemon, model)

    return start


@pytest.fixture
async def scripted(
    run_scripted: Callable[..., AbstractAsyncContextManager[ScriptedDaemon]],
) -> AsyncGenerator[ScriptedDaemon]:
    """A running daemon with a scripted model."""
    async with run_scripted() as running:
        yield running
