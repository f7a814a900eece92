"""Parsing of server-sent events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.client.sse_parser import ServerSentEvent, ServerSentEventParser

line = st.one_of(
    st.sampled_from(
        ["data: one", "data:two", "event: delta", "id: 7", "id:8", ": comment", "data", ""]
    ),
    st.text("ab:é漢 \0", max_size=8),
)
stream = st.lists(st.tuples(line, st.sampled_from(["\n", "\r\n", "\r"])), max_size=20).map(
    lambda lines: "".join(text + end for text, end in lines)
)


def _parse(chunks: list[bytes]) -> list[ServerSentEvent]:
    parser = ServerSentEventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(stream, st.lists(st.integers(0, 200)))
def test_events_do_not_depend_on_chunk_boundaries(text: str, cuts: list[int]) -> None:
    content = text.encode()
    borders = sorted({0, *(cut for cut in cuts if cut < len(content)), len(content)})
    chunks = [content[start:end] for start, end in itertools.pairwise(borders)]
    assert _parse(chunks) == _parse([content])
    assert _parse([bytes([byte]) for byte in content]) == _parse([content])


@given(st.lists(st.tuples(st.text("xyz", min_size=1), st.lists(st.text("ab 漢:"), min_size=1))))
def test_written_events_are_parsed_back(events: list[tuple[str, list[str]]]) -> None:
    text = "".join(
        f"id: {number}\nevent: {name}\n" + "".join(f"data: {line}\n" for line in data) + "\n"
        for number, (name, data) in enumerate(events, 1)
    )
    assert _parse([text.encode()]) == [
        ServerSentEvent(name, "\n".join(data), str(number))
        for number, (name, data) in enumerate(events, 1)
    ]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\n", [ServerSentEvent("message", "a")]),
        ("data: a\ndata: b\n\n", [ServerSentEvent("message", "a\nb")]),
        ("data:  a\n\n", [ServerSentEvent("message", " a")]),
        ("event: x\n\n", []),
        (": ping\n\ndata: a\n\n", [ServerSentEvent("message", "a")]),
        ("\ufeffdata: a\n\n", [ServerSentEvent("message", "a")]),
        ("data: cut off", []),
        ("id: 3\n\ndata: b\n\n", [ServerSentEvent("message", "b", "3")]),
        ("id: 3\0\ndata: a\n\n", [ServerSentEvent("message", "a")]),
        ("retry: 10\nunknown: 1\ndata\n\n", [ServerSentEvent("message", "")]),
    ],
)  # fmt: skip
def test_parses_according_to_the_sse_standard(text: str, events: list[ServerSentEvent]) -> None:
    assert _parse([text.encode()]) == events
