"""`EventHub`: broadcasting events without waiting for slow subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ingle.daemon.event_hub import QUEUE_LIMIT, EventHub


class Number(msgspec.Struct):
    n: int


async def drain(hub: EventHub, publish: Sequence[tuple[int, str | None]]) -> list[int]:
    with hub.subscribe() as subscription:
        for n, replaces in publish:
            hub.publish("model" if replaces is None else "gauges", Number(n), replaces=replaces)
        subscription.end()
        return [msgspec.json.decode(event.data)["n"] async for event in subscription]


async def test_all_state_changes_but_only_the_latest_gauges_are_delivered() -> None:
    published = [(1, None), (2, "g"), (3, None), (4, "g"), (5, "g"), (6, None), (7, "h")]
    assert await drain(EventHub(), published) == [1, 5, 3, 6, 7]


async def test_subscriber_beyond_the_queue_limit_is_ended() -> None:
    assert await drain(EventHub(), [(n, None) for n in range(QUEUE_LIMIT + 1)]) == []
    count = QUEUE_LIMIT
    assert await drain(EventHub(), [(n, None) for n in range(count)]) == list(range(count))


async def test_events_without_subscribers_are_dropped() -> None:
    hub = EventHub()
    hub.publish("model", Number(1))
    assert await drain(hub, [(2, None)]) == [2]
    assert hub.listeners == 0


async def test_on_listeners_reports_the_first_and_last_subscriber() -> None:
    hub = EventHub()
    counts: list[int] = []
    hub.on_listeners = lambda: counts.append(hub.listeners)
    with hub.subscribe(), hub.subscribe():
        assert counts == [1]
    assert counts == [1, 0]


async def test_close_ends_current_and_later_subscriptions() -> None:
    hub = EventHub()
    with hub.subscribe() as early:
        waiting = asyncio.create_task(anext(aiter(early), None))
        await asyncio.sleep(0)
        hub.close()
        assert await waiting is None
    with hub.subscribe() as late:
        assert [event async for event in late] == []
