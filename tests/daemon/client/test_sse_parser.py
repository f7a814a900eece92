"""Server-sent events, however they are cut."""

from __future__ import annotations

from ingle.daemon.client.sse_parser import ServerEvent, parse_events

STREAM = (
    ": comment\n\n"
    'id: 1\nevent: delta\ndata: {"text": "wörld"}\n\n'
    "data: a\r\ndata:b\r\n\r\n"
    "event: nothing\n\n"
    "retry: 10\nunknown\ndata\n\n"
    "data: unfinished"
).encode()

EVENTS = [
    ServerEvent("delta", '{"text": "wörld"}', "1"),
    ServerEvent("message", "a\nb", "1"),
    ServerEvent("message", "", "1"),
]


def test_whole_stream() -> None:
    assert list(parse_events([STREAM])) == EVENTS


def test_any_cut() -> None:
    for size in range(1, 20):
        chunks = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
        assert list(parse_events(chunks)) == EVENTS


def test_event_comes_before_the_next_chunk_is_asked_for() -> None:
    asked: list[int] = []

    def chunks():  # type: ignore[no-untyped-def]
        for number in range(3):
            asked.append(number)
            yield b"data: x\n\n"

    next(iter(parse_events(chunks())))
    assert asked == [0]
