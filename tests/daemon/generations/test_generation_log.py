"""What is kept of a generation's events."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.generations.run_registry import EVENT_BYTES, GenerationLog, LoggedEvent

EVENTS = st.lists(st.tuples(st.sampled_from(["delta", "started", "error"]), st.binary(max_size=9)))


@given(EVENTS, st.integers(0, 40), st.integers(1, 20))
def test_a_packed_log_says_the_same(
    events: list[tuple[str, bytes]], number: int, most: int
) -> None:
    log = GenerationLog()
    for name, data in events:
        log.append(name, data)
    wanted = [LoggedEvent(at + 1, *event) for at, event in enumerate(events)]
    for _ in range(2):
        assert len(log) == len(events)
        assert log.behind(number, most) == wanted[number : number + most]
        assert log.behind(0, 1000) == wanted
        log.pack()


def test_it_takes_what_it_says() -> None:
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
