"""The completion client of the benchmarks: chunked server-sent events with arrival times."""

from __future__ import annotations

import asyncio
import json

import pytest
from completion_client import Request, RequestFailed, ask, read_answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    """One HTTP chunk."""
    content = text.encode()
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def arrive(*pieces: bytes) -> tuple[bytes, list[tuple[int, float]]]:
    """The received bytes and their arrival times, one piece a second."""
    arrivals: list[tuple[int, float]] = []
    received = b""
    for second, piece in enumerate(pieces, 1):
        received += piece
        arrivals.append((len(received), float(second)))
    return received, arrivals


def completion(text: str) -> str:
    """An event of /v1/completions."""
    return f"data: {json.dumps({'choices': [{'text': text, 'index': 0}], 'usage': None})}\n\n"


def test_text_has_the_arrival_time_of_its_last_byte() -> None:
    second = chunk(completion(" there"))
    received, arrivals = arrive(
        HEAD,
        chunk(completion("")),
        chunk(completion("Hi")),
        second[:20],
        second[20:],
        chunk("data: [DONE]\n\n") + b"0\r\n\r\n",
    )
    answer = read_answer(received, arrivals)
    assert answer.text == "Hi there"
    assert answer.times == (3.0, 5.0)
    assert (answer.first, answer.last, answer.tokens) == (3.0, 5.0, 2)


def test_events_may_span_chunks_and_chunks_may_arrive_together() -> None:
    event = completion("one") + completion("two")
    received, arrivals = arrive(
        HEAD + chunk(event[:10]), chunk(event[10:30]) + chunk(event[30:]), b"0\r\n\r\n"
    )
    answer = read_answer(received, arrivals)
    assert answer.times == (2.0, 2.0)


def test_usage_takes_precedence_over_the_event_count() -> None:
    usage = {
        "completion_tokens": 7,
        "prompt_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 16},
    }
    received, arrivals = arrive(
        HEAD
        + chunk('data: {"choices":[{"delta":{"role":"assistant"}}]}\r\n\r\n')
        + chunk('data: {"choices":[{"delta":{"content":"Hi"}}]}\r\n\r\n')
        + chunk(f"data: {json.dumps({'choices': [], 'usage': usage})}\r\n\r\n")
    )
    answer = read_answer(received, arrivals)
    assert (answer.tokens, answer.prompt_tokens, answer.cached_tokens) == (7, 20, 16)


@pytest.mark.parametrize(
    ("response", "status", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nnope", 400, "nope"),
        (HEAD + chunk('data: {"error":{"message":"full"}}\n\n'), 200, "full"),
        (HEAD + chunk("data: [DONE]\n\n"), 200, "without text"),
        (b"", 0, "^status 0: $"),
    ],
)
def test_invalid_response_raises_an_error(response: bytes, status: int, words: str) -> None:
    with pytest.raises(RequestFailed, match=words) as failed:
        read_answer(response, [(len(response), 1.0)])
    assert failed.value.status == status


async def test_requests_are_sent_concurrently() -> None:
    all_connected = asyncio.Barrier(3)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        prompt = json.loads(await reader.readexactly(length))["prompt"]
        await all_connected.wait()  # hangs if the requests are not concurrent
        writer.write(HEAD + chunk(completion(prompt)) + b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        requests = [Request("/v1/completions", {"prompt": text}) for text in "abc"]
        answers = await asyncio.wait_for(ask(port, requests), 10)
    assert [answer.text for answer in answers] == ["a", "b", "c"]
