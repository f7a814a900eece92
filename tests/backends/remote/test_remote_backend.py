"""The remote backend sends exactly the cleared request, once, and counts every byte."""

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
    from .conftest import Connection, Exchange, ProviderClient, Sink


def assert_receipt_matches(exchange: Exchange, sink: Sink) -> None:
    """Assert that the receipt matches the bytes received by the sink."""
    assert exchange.receipt.bytes_sent == sink.received
    assert sorted(exchange.receipt.digests) == sorted(
        connection.digest for connection in sink.connections
    )


async def test_answer_is_converted_to_events(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(sink.hello)
    exchange = await provider_client.send(chat_request)
    assert exchange.events == [
        Started("r-1", 0),
        Delta("r-1", 0, "Hel", []),
        Delta("r-1", 0, "lo", []),
        Finished("r-1", 0, FinishReason.STOP, 2, prompt_tokens=7),
    ]
    assert exchange.departures == 1
    assert exchange.receipt.outcome is Outcome.COMPLETE
    assert exchange.receipt.usage == TokenUsage(prompt=7, completion=2)
    assert_receipt_matches(exchange, sink)


async def test_request_has_only_the_necessary_headers(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    sink.always(sink.hello, "200 OK", "Set-Cookie: a=b")
    await provider_client.send(chat_request)
    await provider_client.send(chat_request)
    line, *headers = sink.connections[1].head
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
async def test_request_that_differs_from_the_cleared_one_is_not_sent(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    changed: dict[str, object],
) -> None:
    exchange = provider_client.new_exchange()
    backend = provider_client.backend(chat_request, exchange, provider_client.provider())
    with pytest.raises(NotCleared):
        await backend.run(structs.replace(chat_request, **changed), exchange.events.extend)
    assert (sink.connections, exchange.departures, exchange.receipts) == ([], 0, [])


async def test_clearance_is_valid_for_one_request(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(sink.hello)
    exchange = await provider_client.send(chat_request)
    assert exchange.backend is not None
    with pytest.raises(NotCleared):
        await exchange.backend.run(chat_request, exchange.events.extend)
    assert len(sink.connections) == len(exchange.receipts) == 1


async def test_clearance_is_bound_to_provider_and_model(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    provider = provider_client.provider()
    cleared = provider_client.backend(
        chat_request, provider_client.new_exchange(), provider
    ).clearance
    backends = RemoteBackends(offline=False)

    async def depart(size: int) -> None:
        pytest.fail("a request was sent")

    for other, model in ((structs.replace(provider, name="other"), "m-1"), (provider, "m-2")):
        with pytest.raises(NotCleared):
            backends.make(other, model, None, cleared, lambda _: None, before_send=depart)


def test_offline_forbids_remote_backends() -> None:
    with pytest.raises(RemoteForbidden):
        RemoteBackends(offline=True)


async def test_nothing_is_sent_if_the_ledger_write_fails(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    exchange = provider_client.new_exchange()
    cleared = provider_client.backend(chat_request, exchange, provider_client.provider()).clearance

    async def disk_full(size: int) -> None:
        raise OSError(28, "No space left on device")

    backend = RemoteBackends(offline=False).make(
        provider_client.provider(),
        "m-1",
        None,
        cleared,
        exchange.receipts.append,
        before_send=disk_full,
    )
    with pytest.raises(OSError, match="No space"):
        await backend.run(chat_request, exchange.events.extend)
    assert (sink.connections, exchange.receipts) == ([], [])


async def test_multiple_choices_are_sent_as_separate_requests(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(sink.hello)
    request = structs.replace(
        chat_request, n=3, sampling=structs.replace(chat_request.sampling, seed=5, temperature=0.1)
    )
    exchange = await provider_client.send(request)
    assert [exchange.text(index) for index in range(3)] == ["Hello"] * 3
    assert sum(isinstance(event, Started) for event in exchange.events) == 1
    assert exchange.receipt.usage == TokenUsage(prompt=21, completion=6)
    assert sorted(str(connection.body["seed"]) for connection in sink.connections) == [
        "5",
        "6",
        "7",
    ]
    assert all("n" not in connection.body for connection in sink.connections)
    assert_receipt_matches(exchange, sink)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_retryable_status_is_retried(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, status: int
) -> None:
    async def busy_at_first(connection: Connection) -> None:
        if len(sink.connections) < 2:
            await connection.answer(b"{}", f"{status} Busy", "Retry-After: 0.01")
        else:
            await connection.answer(sink.hello)

    sink.respond = busy_at_first
    exchange = await provider_client.send(chat_request, retries=2)
    assert exchange.text() == "Hello"
    assert (exchange.receipt.attempts, exchange.departures) == (2, 1)
    assert_receipt_matches(exchange, sink)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 418])
async def test_other_status_codes_are_not_retried(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, status: int
) -> None:
    body = b'{"error": {"message": "Key sk-test-8f2b1c \\u001b[31m is wrong."}}'
    sink.always(body, f"{status} No")
    exchange = provider_client.new_exchange()
    with pytest.raises(ProviderRefused) as refusal:
        await provider_client.send(chat_request, exchange=exchange, retries=3)
    assert refusal.value.status == status
    assert "sk-test" not in refusal.value.message
    assert refusal.value.message.isprintable()
    assert len(sink.connections) == 1
    assert exchange.receipt.outcome is Outcome.REFUSED
    assert_receipt_matches(exchange, sink)


async def test_long_retry_after_is_not_awaited(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(b"", "429 Too Many Requests", "Retry-After: 3600")
    with pytest.raises(ProviderRefused):
        await provider_client.send(chat_request, retries=3)
    assert len(sink.connections) == 1


async def test_redirects_are_not_followed(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(b"", "307 Temporary Redirect", f"Location: http://127.0.0.1:{sink.port}/v2")
    with pytest.raises(ProviderRefused, match="redirects"):
        await provider_client.send(chat_request, retries=3)
    assert len(sink.connections) == 1


async def test_failed_connection_is_retried_and_sends_nothing(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, unused_tcp_port: int
) -> None:
    sink.port, exchange = unused_tcp_port, provider_client.new_exchange()
    with pytest.raises(ProviderUnreachable):
        await provider_client.send(chat_request, exchange=exchange, retries=1)
    assert (exchange.receipt.attempts, exchange.receipt.bytes_sent) == (2, 0)
    assert exchange.receipt.digests == ()


async def test_unresponsive_address_falls_back_to_the_next(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A listener with a full backlog never answers, like a broken route."""
    with socket.socket() as unresponsive, socket.socket() as filler:
        unresponsive.bind(("127.0.0.1", 0))
        unresponsive.listen(0)
        filler.connect(unresponsive.getsockname())
        others = [socket.socket() for _ in range(4)]
        for each in others:
            each.setblocking(False)
            each.connect_ex(unresponsive.getsockname())
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", place)
            for place in (unresponsive.getsockname(), ("127.0.0.1", sink.port))
        ]

        async def resolve_both(*_: object, **__: object) -> object:
            return addresses

        monkeypatch.setattr(metered_connection, "NEXT_ADDRESS_AFTER", 0.1)
        monkeypatch.setattr(metered_connection, "resolve", resolve_both)
        sink.always(sink.hello)
        exchange = await provider_client.send(chat_request)
        for each in others:
            each.close()
    assert exchange.text() == "Hello"


async def test_connection_lost_after_sending_is_not_retried(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    async def hang_up(connection: Connection) -> None:
        connection.writer.close()

    sink.respond, exchange = hang_up, provider_client.new_exchange()
    with pytest.raises(ProviderUnreachable):
        await provider_client.send(chat_request, exchange=exchange, retries=3)
    assert len(sink.connections) == 1
    assert_receipt_matches(exchange, sink)


@pytest.mark.parametrize("after", ["nothing", "headers", "text"])
async def test_idle_connection_times_out(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, after: str
) -> None:
    async def fall_silent(connection: Connection) -> None:
        if after != "nothing":
            await connection.answer(b"" if after == "headers" else sink.hello[:60])
        await connection.reader.read()

    sink.respond, exchange = fall_silent, provider_client.new_exchange()
    with pytest.raises(ProviderUnreachable, match="silent"):
        await provider_client.send(
            chat_request, exchange=exchange, first_byte_timeout=0.1, idle_timeout=0.1
        )
    assert exchange.receipt.outcome is Outcome.FAILED
    assert_receipt_matches(exchange, sink)


async def test_total_timeout_ends_an_endless_answer(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    async def send_keepalives(connection: Connection) -> None:
        await connection.answer(b"")
        while not connection.writer.is_closing():
            connection.writer.write(b": patience\n\n")
            await asyncio.sleep(0.01)

    sink.respond = send_keepalives
    with pytest.raises(ProviderUnreachable, match="longer"):
        await provider_client.send(chat_request, total_timeout=0.2)


async def test_closing_the_event_stream_closes_the_connection(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    async def begin_answer(connection: Connection) -> None:
        await connection.answer(sink.sse(sink.chunk("Hel"), done=False))
        await connection.reader.read()

    sink.respond, exchange = begin_answer, provider_client.new_exchange()
    backend = provider_client.backend(chat_request, exchange, provider_client.provider())
    async with aclosing(stream_events(backend, chat_request)) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    async with asyncio.timeout(5):
        await sink.connections[0].gone.wait()
    assert exchange.receipt.outcome is Outcome.CANCELLED
    assert_receipt_matches(exchange, sink)


async def test_cancelled_upload_counts_the_bytes_sent(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    large = structs.replace(chat_request, stop=["x" * 50_000_000])
    reads = asyncio.Event()

    async def read_slowly(connection: Connection) -> None:
        pytest.fail("the request arrived completely")

    sink.respond, exchange = read_slowly, provider_client.new_exchange()
    backend = provider_client.backend(large, exchange, provider_client.provider())
    task = asyncio.ensure_future(backend.run(large, exchange.events.extend))
    while not sink.received:
        await asyncio.sleep(0)
    reads.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await sink.connections[0].gone.wait()
    assert 0 < sink.received < 50_000_000
    assert_receipt_matches(exchange, sink)


async def test_cancelled_request_closes_the_connection(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    async def never_answer(connection: Connection) -> None:
        await connection.reader.read()

    sink.respond, exchange = never_answer, provider_client.new_exchange()
    backend = provider_client.backend(chat_request, exchange, provider_client.provider())
    task = asyncio.ensure_future(backend.run(chat_request, exchange.events.extend))
    while not sink.connections:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert exchange.receipt.outcome is Outcome.CANCELLED


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
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, name: str
) -> None:
    sink.always(HOSTILE[name])
    exchange = provider_client.new_exchange()
    with pytest.raises(RemoteError) as error:
        await provider_client.send(chat_request, exchange=exchange)
    assert isinstance(error.value, ProviderMisbehaved)
    assert error.value.message.isprintable()
    assert_receipt_matches(exchange, sink)


async def test_too_many_tool_calls_are_an_error(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    calls = [{"index": i, "function": {"name": "f"}} for i in range(300)]
    sink.always(sink.sse(sink.chunk(tool_calls=calls)))
    with pytest.raises(ProviderMisbehaved):
        await provider_client.send(chat_request)


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
async def test_hostile_response_heads_are_errors(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, head: bytes
) -> None:
    async def send_head(connection: Connection) -> None:
        connection.writer.write(head)

    sink.respond = send_head
    with pytest.raises(ProviderMisbehaved) as error:
        await provider_client.send(chat_request)
    assert error.value.message.isprintable()


async def test_control_characters_are_passed_as_text(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    text = "\x1b]52;c;aGk=\x07\r\ndata: {}\r\n\r\n\x00"
    sink.always(sink.sse(sink.chunk(text), sink.chunk(finish="stop")))
    assert (await provider_client.send(chat_request)).text() == text


async def test_error_event_after_partial_text_is_raised(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(sink.sse(sink.chunk("Hel"), {"error": {"message": "out of memory"}}))
    exchange = provider_client.new_exchange()
    with pytest.raises(ProviderRefused, match="out of memory"):
        await provider_client.send(chat_request, exchange=exchange)
    assert exchange.text() == "Hel"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_answer_may_arrive_in_pieces_of_any_size(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest, size: int
) -> None:
    body = sink.sse(sink.chunk("Grüße, 🌍"), sink.chunk(finish="stop")).replace(b"\n", b"\r\n")

    async def in_pieces(connection: Connection) -> None:
        await connection.answer(b"", "200 OK", "Transfer-Encoding: chunked")
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            connection.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await connection.writer.drain()
        connection.writer.write(b"0\r\n\r\n")

    sink.respond = in_pieces
    exchange = await provider_client.send(chat_request)
    assert exchange.text() == "Grüße, 🌍"
    assert_receipt_matches(exchange, sink)
