"""Following a generation: resuming an interrupted stream, retries and cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonError, DaemonUnreachable
from ingle.daemon.client.generation_stream import GenerationFollower, new_generation_id
from ingle.daemon.client.generation_types import DeltaEvent, FinishedEvent, StartedEvent
from ingle.tui.chats.turn_request import TurnRequest

if TYPE_CHECKING:
    from tests.harness.fake_daemon import FakeDaemon

PROMPT = TurnRequest([{"role": "user", "content": "Hi"}])


@pytest.fixture(autouse=True)
def no_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingle.daemon.client.generation_stream.RETRY_DELAYS", (0.0, 0.0, 0.01))


@pytest.mark.parametrize("drop_after", [None, 0, 1, 2, 4])
async def test_resumed_stream_delivers_every_event_once(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon, drop_after: int | None
) -> None:
    fake_daemon.script("a", "b", "c", drop_after=drop_after)
    generation = await GenerationFollower.start(client, PROMPT.body())
    events = [event async for event in generation.events()]
    assert isinstance(events[0], StartedEvent)
    assert [event.text for event in events if isinstance(event, DeltaEvent)] == ["a", "b", "c"]
    assert isinstance(events[-1], FinishedEvent)
    assert len(events) == 5


async def test_reconnect_attempts_are_limited(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    generation = await GenerationFollower.start(client, PROMPT.body())
    await fake_daemon.stop()
    with pytest.raises(DaemonUnreachable):
        _ = [event async for event in generation.events()]


async def test_expired_generation_is_an_error(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    generation = await GenerationFollower.start(client, PROMPT.body())
    fake_daemon.generations.clear()
    with pytest.raises(DaemonError, match="No such generation"):
        _ = [event async for event in generation.events()]


async def test_cancel_stops_the_generation(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("a", "b", gate_before=1)
    generation = await GenerationFollower.start(client, PROMPT.body())
    reason = ""
    async for event in generation.events():
        if isinstance(event, DeltaEvent):
            await generation.cancel()
        if isinstance(event, FinishedEvent):
            reason = event.reason
    assert reason == "cancelled"


async def test_lost_response_to_the_start_request_is_recovered(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("a", "b", reply_lost=True)
    name = new_generation_id()
    generation = await GenerationFollower.start(client, PROMPT.body(), name)
    assert generation.id == name
    events = [event async for event in generation.events()]
    assert [event.text for event in events if isinstance(event, DeltaEvent)] == ["a", "b"]


async def test_start_request_that_cannot_be_sent_is_an_error(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    await fake_daemon.stop()
    with pytest.raises(DaemonUnreachable):
        await GenerationFollower.start(client, PROMPT.body(), new_generation_id())
