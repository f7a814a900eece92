"""What leaves is what was cleared, once, and every byte of it is counted."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from ingle.backends.base.backend import stream_events
from ingle.backends.base.events import Delta, Finished, FinishReason, Started
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote import metered_connection
from ingle.backends.remote.errors import (
    NotCleared,
    ProviderMisbehaved,
    ProviderRefused,
    ProviderUnreachable,
    RemoteError,
    RemoteForbidden,
)
from ingle.backends.remote.receipt import Outcome, TokenUsage
from ingle.backends.remote.remote_backend_factory import RemoteBackends

if TYPE_CHECKING:
    from .conftest import Asked, Asker, Sink, Visit


def agree(asked: Asked, sink: Sink) -> None:
    """The receipt is what the sink wrote down, to the byte."""
    assert asked.receipt.bytes_sent == sink.received
    assert sorted(asked.receipt.digests) == sorted(visit.digest for visit in sink.visits)


async def test_an_answer_comes_as_events(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(sink.hello)
    asked = await asker.ask(question)
    assert asked.events == [
        Started("r-1", 0),
        Delta("r-1", 0, "Hel", []),
        Delta("r-1", 0, "lo", []),
        Finished("r-1", 0, FinishReason.STOP, 2, prompt_tokens=7),
    ]
    assert asked.departures == 1
    assert asked.receipt.outcome is Outcome.COMPLETE
    assert asked.receipt.usage == TokenUsage(prompt=7, completion=2)
    agree(asked, sink)


async def test_headers_say_no_more_than_they_must(
    asker: Asker, sink: Sink, question: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    sink.always(sink.hello, "200 OK", "Set-Cookie: a=b")
    await asker.ask(question)
    await asker.ask(question)
    line, *headers = sink.visits[1].head
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert [header.split(":")[0].lower() for header in headers] == [
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "content-type",
        "authorization",
        "content-length",
        "connection",
    ]
    assert "user-agent: ingle" in [header.lower() for header in headers]


@pytest.mark.parametrize(
    "changed",
    [
        {"messages": []},
        {"stop": ["x"]},
        {"max_tokens": 3},
        {"conversation": "other"},
        {"client": "other"},
    ],
)
async def test_another_request_than_the_cleared_one_stays(
    asker: Asker, sink: Sink, question: GenerateRequest, changed: dict[str, object]
) -> None:
    asked = asker.nothing_yet()
    backend = asker.backend(question, asked, asker.provider())
    with pytest.raises(NotCleared):
        await backend.run(structs.replace(question, **changed), asked.events.extend)
    assert (sink.visits, asked.departures, asked.receipts) == ([], 0, [])


async def test_a_clearance_is_good_for_one_departure(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(sink.hello)
    asked = await asker.ask(question)
    assert asked.backend is not None
    with pytest.raises(NotCleared):
        await asked.backend.run(question, asked.events.extend)
    assert len(sink.visits) == len(asked.receipts) == 1


async def test_a_clearance_names_its_provider(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    provider = asker.provider()
    cleared = asker.backend(question, asker.nothing_yet(), provider).clearance
    backends = RemoteBackends(offline=False)

    async def depart(size: int) -> None:
        pytest.fail("it departed")

    for other, model in ((structs.replace(provider, name="other"), "m-1"), (provider, "m-2")):
        with pytest.raises(NotCleared):
            backends.make(other, model, None, cleared, lambda _: None, before_send=depart)


def test_offline_makes_no_backends() -> None:
    with pytest.raises(RemoteForbidden):
        RemoteBackends(offline=True)


async def test_nothing_leaves_when_the_departure_is_refused(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    asked = asker.nothing_yet()
    cleared = asker.backend(question, asked, asker.provider()).clearance

    async def full(size: int) -> None:
        raise OSError(28, "No space left on device")

    backend = RemoteBackends(offline=False).make(
        asker.provider(), "m-1", None, cleared, asked.receipts.append, before_send=full
    )
    with pytest.raises(OSError, match="No space"):
        await backend.run(question, asked.events.extend)
    assert (sink.visits, asked.receipts) == ([], [])


async def test_several_answers_are_several_requests(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(sink.hello)
    request = structs.replace(
        question, n=3, sampling=structs.replace(question.sampling, seed=5, temperature=0.1)
    )
    asked = await asker.ask(request)
    assert [asked.text(index) for index in range(3)] == ["Hello"] * 3
    assert sum(isinstance(event, Started) for event in asked.events) == 1
    assert asked.receipt.usage == TokenUsage(prompt=21, completion=6)
    assert sorted(str(visit.body["seed"]) for visit in sink.visits) == ["5", "6", "7"]
    assert all("n" not in visit.body for visit in sink.visits)
    agree(asked, sink)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_a_busy_provider_is_asked_again(
    asker: Asker, sink: Sink, question: GenerateRequest, status: int
) -> None:
    async def busy_at_first(visit: Visit) -> None:
        if len(sink.visits) < 2:
            await visit.answer(b"{}", f"{status} Busy", "Retry-After: 0.01")
        else:
            await visit.answer(sink.hello)

    sink.respond = busy_at_first
    asked = await asker.ask(question, retries=2)
    assert asked.text() == "Hello"
    assert (asked.receipt.attempts, asked.departures) == (2, 1)
    agree(asked, sink)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 418])
async def test_other_refusals_are_final(
    asker: Asker, sink: Sink, question: GenerateRequest, status: int
) -> None:
    body = b'{"error": {"message": "Key sk-test-8f2b1c \\u001b[31m is wrong."}}'
    sink.always(body, f"{status} No")
    asked = asker.nothing_yet()
    with pytest.raises(ProviderRefused) as refusal:
        await asker.ask(question, asked=asked, retries=3)
    assert refusal.value.status == status
    assert "sk-test" not in refusal.value.message
    assert refusal.value.message.isprintable()
    assert len(sink.visits) == 1
    assert asked.receipt.outcome is Outcome.REFUSED
    agree(asked, sink)


async def test_who_is_to_wait_for_long_does_not(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(b"", "429 Too Many Requests", "Retry-After: 3600")
    with pytest.raises(ProviderRefused):
        await asker.ask(question, retries=3)
    assert len(sink.visits) == 1


async def test_redirects_are_not_followed(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(b"", "307 Temporary Redirect", f"Location: http://127.0.0.1:{sink.port}/v2")
    with pytest.raises(ProviderRefused, match="redirects"):
        await asker.ask(question, retries=3)
    assert len(sink.visits) == 1


async def test_a_connection_that_fails_is_tried_again_and_sends_nothing(
    asker: Asker, sink: Sink, question: GenerateRequest, unused_tcp_port: int
) -> None:
    sink.port, asked = unused_tcp_port, asker.nothing_yet()
    with pytest.raises(ProviderUnreachable):
        await asker.ask(question, asked=asked, retries=1)
    assert (asked.receipt.attempts, asked.receipt.bytes_sent) == (2, 0)
    assert asked.receipt.digests == ()


async def test_an_address_that_swallows_everything_does_not_hide_the_next(
    asker: Asker, sink: Sink, question: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full never answers, as a broken route does."""
    with socket.socket() as silent, socket.socket() as filler:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        filler.connect(silent.getsockname())
        others = [socket.socket() for _ in range(4)]
        for each in others:
            each.setblocking(False)
            each.connect_ex(silent.getsockname())
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", place)
            for place in (silent.getsockname(), ("127.0.0.1", sink.port))
        ]

        async def both(*_: object, **__: object) -> object:
            return addresses

        monkeypatch.setattr(metered_connection, "NEXT_ADDRESS_AFTER", 0.1)
        monkeypatch.setattr(metered_connection, "resolve", both)
        sink.always(sink.hello)
        asked = await asker.ask(question)
        for each in others:
            each.close()
    assert asked.text() == "Hello"


async def test_what_broke_after_it_was_sent_is_not_sent_twice(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    async def hang_up(visit: Visit) -> None:
        visit.writer.close()

    sink.respond, asked = hang_up, asker.nothing_yet()
    with pytest.raises(ProviderUnreachable):
        await asker.ask(question, asked=asked, retries=3)
    assert len(sink.visits) == 1
    agree(asked, sink)


@pytest.mark.parametrize("after", ["nothing", "headers", "text"])
async def test_silence_ends(
    asker: Asker, sink: Sink, question: GenerateRequest, after: str
) -> None:
    async def fall_silent(visit: Visit) -> None:
        if after != "nothing":
            await visit.answer(b"" if after == "headers" else sink.hello[:60])
        await visit.reader.read()

    sink.respond, asked = fall_silent, asker.nothing_yet()
    with pytest.raises(ProviderUnreachable, match="silent"):
        await asker.ask(question, asked=asked, first_byte_timeout=0.1, idle_timeout=0.1)
    assert asked.receipt.outcome is Outcome.FAILED
    agree(asked, sink)


async def test_an_answer_that_never_ends_is_ended(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    async def drip(visit: Visit) -> None:
        await visit.answer(b"")
        while not visit.writer.is_closing():
            visit.writer.write(b": patience\n\n")
            await asyncio.sleep(0.01)

    sink.respond = drip
    with pytest.raises(ProviderUnreachable, match="longer"):
        await asker.ask(question, total_timeout=0.2)


async def test_who_leaves_closes_the_connection(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    async def begin(visit: Visit) -> None:
        await visit.answer(sink.sse(sink.chunk("Hel"), done=False))
        await visit.reader.read()

    sink.respond, asked = begin, asker.nothing_yet()
    backend = asker.backend(question, asked, asker.provider())
    async with aclosing(stream_events(backend, question)) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    async with asyncio.timeout(5):
        await sink.visits[0].gone.wait()
    assert asked.receipt.outcome is Outcome.CANCELLED
    agree(asked, sink)


async def test_a_cancelled_upload_counts_what_left(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    large = structs.replace(question, stop=["x" * 50_000_000])
    reads = asyncio.Event()

    async def read_slowly(visit: Visit) -> None:
        pytest.fail("the request was to be cut off")

    sink.respond, asked = read_slowly, asker.nothing_yet()
    backend = asker.backend(large, asked, asker.provider())
    task = asyncio.ensure_future(backend.run(large, asked.events.extend))
    while not sink.received:
        await asyncio.sleep(0)
    reads.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await sink.visits[0].gone.wait()
    assert 0 < sink.received < 50_000_000
    agree(asked, sink)


async def test_cancelling_ends_what_runs(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    async def wait(visit: Visit) -> None:
        await visit.reader.read()

    sink.respond, asked = wait, asker.nothing_yet()
    backend = asker.backend(question, asked, asker.provider())
    task = asyncio.ensure_future(backend.run(question, asked.events.extend))
    while not sink.visits:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asked.receipt.outcome is Outcome.CANCELLED


HOSTILE: dict[str, bytes] = {
    "invalid UTF-8": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    "no JSON": b"data: hello\n\n",
    "a list": b"data: []\n\n",
    "a text for choices": b'data: {"choices":"x"}\n\n',
    "a number for text": b'data: {"choices":[{"delta":{"content":5}}]}\n\n',
    "deep nesting": b"data: " + b'{"a":' * 50_000 + b"\n\n",
    "a lone surrogate": b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n',
    "impossible counts": b'data: {"usage":{"prompt_tokens":-5,"completion_tokens":1}}\n\n',
    "huge counts": b'data: {"usage":{"prompt_tokens":99999999999999}}\n\n',
    "a call without a name": b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}\n\n',
    "no end": b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n',
    "nothing": b"",
    "a line without end": b"data: " + b"x" * 5_000_000,
    "an event without end": b"data: x\n" * 2_200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_answers_are_errors(
    asker: Asker, sink: Sink, question: GenerateRequest, name: str
) -> None:
    sink.always(HOSTILE[name])
    asked = asker.nothing_yet()
    with pytest.raises(RemoteError) as error:
        await asker.ask(question, asked=asked)
    assert isinstance(error.value, ProviderMisbehaved)
    assert error.value.message.isprintable()
    agree(asked, sink)


async def test_too_many_calls_are_an_error(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    calls = [{"index": i, "function": {"name": "f"}} for i in range(300)]
    sink.always(sink.sse(sink.chunk(tool_calls=calls)))
    with pytest.raises(ProviderMisbehaved):
        await asker.ask(question)


@pytest.mark.parametrize(
    "head",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
async def test_hostile_heads_are_errors(
    asker: Asker, sink: Sink, question: GenerateRequest, head: bytes
) -> None:
    async def shout(visit: Visit) -> None:
        visit.writer.write(head)

    sink.respond = shout
    with pytest.raises(ProviderMisbehaved) as error:
        await asker.ask(question)
    assert error.value.message.isprintable()


async def test_control_characters_are_only_text(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    text = "\x1b]52;c;aGk=\x07\r\ndata: {}\r\n\r\n\x00"
    sink.always(sink.sse(sink.chunk(text), sink.chunk(finish="stop")))
    assert (await asker.ask(question)).text() == text


async def test_an_error_in_the_middle_comes_behind_the_text(
    asker: Asker, sink: Sink, question: GenerateRequest
) -> None:
    sink.always(sink.sse(sink.chunk("Hel"), {"error": {"message": "out of memory"}}))
    asked = asker.nothing_yet()
    with pytest.raises(ProviderRefused, match="out of memory"):
        await asker.ask(question, asked=asked)
    assert asked.text() == "Hel"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_an_answer_may_come_in_any_pieces(
    asker: Asker, sink: Sink, question: GenerateRequest, size: int
) -> None:
    body = sink.sse(sink.chunk("Grüße, 🌍"), sink.chunk(finish="stop")).replace(b"\n", b"\r\n")

    async def in_pieces(visit: Visit) -> None:
        await visit.answer(b"", "200 OK", "Transfer-Encoding: chunked")
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            visit.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await visit.writer.drain()
        visit.writer.write(b"0\r\n\r\n")

    sink.respond = in_pieces
    asked = await asker.ask(question)
    assert asked.text() == "Grüße, 🌍"
    agree(asked, sink)
