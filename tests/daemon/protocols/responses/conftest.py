"""A daemon whose model says what a test puts into its mouth, and a judge of what comes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import Response, ResponseItem, ResponseStreamEvent
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

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)


@dataclass
class Mouth:
    """What the model says next, and what it was asked."""

    events: list[Event] = field(default_factory=list[Event])
    error: Exception | None = None
    asked: list[GenerateRequest] = field(default_factory=list[GenerateRequest])
    gate: Callable[[], Awaitable[object]] | None = None

    @property
    def last(self) -> GenerateRequest:
        return self.asked[-1]

    def says(self, *parts: Any, reason: FinishReason = FinishReason.STOP) -> None:
        """Text as str, thoughts as ("think", text), a call as ("call", name, *pieces)."""
        said: list[Event] = []
        calls = 0
        for part in parts:
            match part:
                case str():
                    said.append(Delta("", 0, part, [1]))
                case ("think", text):
                    said.append(ReasoningDelta("", 0, text, [1]))
                case ("call", name, *pieces):
                    said.append(ToolCallStarted("", 0, calls, f"call_{calls}", name, [1]))
                    said += [ToolCallDelta("", 0, calls, piece, [1]) for piece in pieces]
                    calls += 1
                case event:
                    said.append(event)
        thoughts = sum(isinstance(event, ReasoningDelta) for event in said)
        end = Finished("", 0, reason, len(said), reasoning_tokens=thoughts)
        self.events = [*said, end]


class SpeakingBackend(LocalBackend):
    """The scripted engine, but its answers come from the mouth where there is one."""

    def __init__(self, spec: LoadSpec, mouth: Mouth) -> None:
        super().__init__(spec)
        self._mouth = mouth

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        mouth = self._mouth
        mouth.asked.append(request)
        if mouth.error is not None:
            raise mouth.error
        if not mouth.events:
            await super().run(request, sink)
            return
        sink([Started(request.id, 10, 4)])
        for event in mouth.events:
            if mouth.gate is not None:
                await mouth.gate()
            sink([event])


@dataclass
class Speaking:
    """A daemon, and the mouth of its model."""

    daemon: RunningDaemon
    mouth: Mouth

    async def post(self, body: dict[str, Any], status: int = 200, **kwargs: Any) -> Any:
        """The answer to a request, checked against the official types."""
        answer = await self.daemon.unix.post(
            "/v1/responses", json={"model": "echo:1", "input": "Hi", **body}, **kwargs
        )
        assert answer.status_code == status, answer.text
        told = answer.json()
        if status == 200:
            Response.model_validate(told)
        return told

    async def stream(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream, each checked, in the order of their numbers."""
        events = await self.daemon.events(
            "POST", "/v1/responses", json={"model": "echo:1", "input": "Hi", "stream": True, **body}
        )
        for number, (name, data) in enumerate(events):
            EVENT.validate_python(data)
            assert name == data["type"]
            assert data["sequence_number"] == number
        return [data for _, data in events]

    async def get(self, path: str, status: int = 200, **kwargs: Any) -> Any:
        answer = await self.daemon.unix.get(f"/v1/responses/{path}", **kwargs)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def speak(
    run_daemon: Callable[..., AbstractAsyncContextManager[RunningDaemon]],
) -> Callable[..., AbstractAsyncContextManager[Speaking]]:
    """Starts such a daemon; a second one in the same test has the same folders."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncGenerator[Speaking]:
        mouth = Mouth()
        create = partial(SpeakingBackend, mouth=mouth)
        async with run_daemon(create_backend=create, **settings) as daemon:
            yield Speaking(daemon, mouth)

    return start


@pytest.fixture
async def speaking(
    speak: Callable[..., AbstractAsyncContextManager[Speaking]],
) -> AsyncGenerator[Speaking]:
    """One such daemon."""
    async with speak() as running:
        yield running
