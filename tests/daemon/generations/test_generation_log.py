"""The event log of a generation: packing and memory accounting."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.generations.run_registry import EVENT_BYTES, GenerationLog, LoggedEvent

EVENTS = st.lists(st.tuples(st.sampled_from(["delta", "started", "error"]), st.binary(max_size=9)))


@given(EVENTS, st.integers(0, 40), st.integers(1, 20))
def test_packing_keeps_all_events(events: list[tuple[str, bytes]], number: int, limit: int) -> None:
    log = GenerationLog()
    for name, data in events:
        log.append(name, data)
    expected = [LoggedEvent(at + 1, *event) for at, event in enumerate(events)]
    for _ in range(2):
        assert len(log) == len(events)
        assert log.behind(number, limit) == expected[number : number + limit]
        assert log.behind(0, 1000) == expected
        log.pack()


def test_log_size_matches_its_memory() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        log = GenerationLog()
        for number in range(5000):
            log.append("delta", b'{"text":"%d"}' % number)
        grown, _ = tracemalloc.get_traced_memory()
        assert log.size * 0.4 < grown - before < log.size * 1.1
        assert log.size > 5000 * EVENT_BYTES
        log.pack()
        packed, _ = tracemalloc.get_traced_memory()
        assert log.size * 0.9 < packed - before < log.size * 1.2
        assert packed - before < (grown - before) / 5
    finally:
        tracemalloc.stop()
