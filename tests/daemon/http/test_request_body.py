"""Malformed HTTP and JSON bodies get a 4xx in the protocol's shape; the daemon keeps running."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import pytest

from ingle.daemon.errors import InvalidBody
from ingle.daemon.http.allowed_values import allowed_values
from ingle.daemon.http.bodies import parse_served
from ingle.daemon.http.body_check import MOST_FIELDS, MOST_ITEMS
from ingle.daemon.http.off_loop import LARGE, off_loop
from ingle.daemon.protocols.ollama.types import ChatRequest
from ingle.daemon.protocols.openai.completions.request_types import ChatCompletionRequest
from ingle.models.model_task import ModelTask

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

RawRequest = Callable[[int | Path, bytes], Awaitable[bytes]]

GOOD = {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
HEAD = json.dumps(GOOD)[:-1].encode()
ENDLESS = {"reply": "x" * 400, "step_seconds": 0.01}

MALFORMED = {
    "empty": b"",
    "spaces": b"  \n ",
    "open brace": b"{",
    "open string": b'{"model": "',
    "no object": b"[]",
    "a string": b'"x"',
    "null": b"null",
    "a number": b"-0",
    "trailing": json.dumps(GOOD).encode() + b" x",
    "two objects": b"{}{}",
    "single quotes": b"{'model': 1}",
    "comment": b"{/* */}",
    "trailing comma": HEAD + b",}",
    "bom": b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
    "utf-16": json.dumps(GOOD).encode("utf-16"),
    "nul": b"\x00",
    "nul inside": HEAD.replace(b"Hi", b"H\x00i") + b"}",
    "control character": HEAD.replace(b"Hi", b"H\ni") + b"}",
    "invalid utf-8": HEAD.replace(b"Hi", b"\xff\xfe") + b"}",
    "overlong utf-8": HEAD.replace(b"Hi", b"\xc0\xaf") + b"}",
    "encoded surrogate": HEAD.replace(b"Hi", b"\xed\xa0\x80") + b"}",
    "invalid utf-8 in an unknown field": HEAD + b', "x": "\xff"}',
    "invalid utf-8 in an unknown key": HEAD + b', "\xff": 1}',
    "bad escape": HEAD.replace(b"Hi", rb"\x41") + b"}",
    "bad unicode escape": HEAD.replace(b"Hi", rb"\u00zz") + b"}",
    "nan": HEAD + b', "temperature": NaN}',
    "infinity": HEAD + b', "temperature": Infinity}',
    "minus infinity": HEAD + b', "temperature": -Infinity}',
    "overflowing unknown float": HEAD + b', "x": -}',
    "leading zero": HEAD + b', "n": 01}',
    "leading plus": HEAD + b', "n": +1}',
    "hex": HEAD + b', "n": 0x1}',
    "deep array": HEAD + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep array never closed": HEAD + b', "x": ' + b"[" * 100_000,
    "deep object": HEAD + b', "x": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "deep messages": b'{"model": "echo:1", "messages": ' + b"[" * 100_000,
}

# Only refused in known fields; an unknown field may hold any JSON.
MALFORMED_CHAT = {
    "overflowing float": HEAD + b', "temperature": 1e999}',
    "big integer": HEAD + b', "n": ' + b"9" * 5000 + b"}",
    "deep tools": HEAD + b', "tools": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/ingle/v1/generations"])
async def test_malformed_json_is_400(daemon: RunningDaemon, path: str) -> None:
    bodies = MALFORMED | MALFORMED_CHAT if path.startswith("/v1/") else MALFORMED
    for name, body in bodies.items():
        answer = await daemon.tcp.post(path, content=body)
        assert answer.status_code == 400, (name, answer.text)
        error = answer.json()["error"]
        assert error["message"], name
        assert ("type" in error) == path.startswith("/v1/")
        assert ("hint" in error) == path.startswith("/ingle/")
    answer = await daemon.tcp.post("/v1/chat/completions", json=GOOD)
    assert answer.json()["choices"][0]["message"]["content"] == "He"


UNUSUAL = {
    "duplicate keys": b'{"model": "nope", ' + HEAD[1:] + b"}",
    "escaped everything": HEAD.replace(b"Hi", rb"\u0000\ud83d\ude00\/") + b"}",
    "unknown huge integer": HEAD + b', "x": ' + b"9" * 5000 + b"}",
    "nested a little": HEAD + b', "x": ' + b"[" * 60 + b"]" * 60 + b"}",
    "spaces around": b" \r\n\t" + HEAD + b"}" + b"\n" * 10,
}


@pytest.mark.parametrize(
    ("escapes", "means"),
    [
        (rb"\ud83d cut", "\ufffd cut"),
        (rb"\uDE00\uD83D", "\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d \\\ud83d \ud83d\\\ude00", r"\ud83d " + "\\\ufffd \ufffd\\\ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(
    escapes: bytes, means: str
) -> None:
    body = HEAD.replace(b"Hi", escapes) + b', "metadata": {"' + escapes + b'": ""}}'
    read, ignored = parse_served(body, ChatCompletionRequest)
    assert read.messages[0].content == means
    assert read.metadata == {means: ""}
    assert not ignored


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        (ChatCompletionRequest, {"reasoning_effort": "x"}, "'reasoning_effort' is 'x'."),
        (ChatCompletionRequest, {"reasoning": {"effort": ""}}, "'reasoning.effort' is ''."),
        (ChatRequest, {"think": "x" * 5000}, f"'think' is '{'x' * 79}…'."),
    ],
)
def test_error_lists_the_values_that_are_allowed(
    kind: type, body: dict[str, object], says: str
) -> None:
    with pytest.raises(InvalidBody) as caught:
        parse_served(json.dumps(GOOD | body).encode(), kind)
    assert caught.value.message == says
    assert (caught.value.hint or "").startswith("It must be high, low, max")


class Inner(msgspec.Struct):
    kind: Literal["a", "b"] | None = None


class Outer(msgspec.Struct):
    many: list[Annotated[Inner, msgspec.Meta(description="x")]] | None = None
    named: dict[str, ModelTask] = {}


def test_allowed_values_are_found_in_lists_and_objects() -> None:
    assert allowed_values(Outer, "$.many[...].kind") == ["a", "b"]
    assert allowed_values(Outer, "$.named[...]") == [str(task.value) for task in ModelTask]
    assert allowed_values(Outer, "$.many") == allowed_values(Outer, "$.gone.kind") == []


async def test_compressed_body_is_415(daemon: RunningDaemon) -> None:
    headers = {"content-encoding": "gzip"}
    body = gzip.compress(json.dumps(GOOD).encode())
    answer = await daemon.tcp.post("/api/chat", content=body, headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("The body is compressed (gzip), which is not")


@pytest.mark.slow
async def test_unusual_but_valid_json_is_accepted(daemon: RunningDaemon) -> None:
    for name, body in UNUSUAL.items():
        answer = await daemon.tcp.post("/v1/chat/completions", content=body)
        assert answer.status_code == 200, (name, answer.text)


async def test_content_type_is_ignored_without_a_browser(daemon: RunningDaemon) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json"):
        answer = await daemon.tcp.post(
            "/v1/chat/completions", content=json.dumps(GOOD), headers={"content-type": kind}
        )
        assert answer.status_code == 200


@pytest.mark.parametrize("size", [0, LARGE, LARGE + 1])
async def test_only_large_bodies_are_decoded_in_a_thread(size: int) -> None:
    in_loop = await off_loop(size, threading.get_ident) == threading.get_ident()
    assert in_loop is (size <= LARGE)


@pytest.mark.slow
async def test_every_protocol_accepts_large_bodies(
    daemon: RunningDaemon,
) -> None:
    messages = [{"role": "user", "content": "Hi"}] * 20
    ignored = {"model": "echo:1", "stream": False, "nobody_knows_this": "x" * LARGE}
    chat = ignored | {"messages": messages, "max_tokens": 2}
    paths: list[str] = ["/v1/chat/completions", "/v1/messages", "/api/chat"]
    bodies = dict.fromkeys(paths, chat)
    bodies["/v1/responses"] = ignored | {"input": messages, "max_output_tokens": 2}
    for path, body in bodies.items():
        answer = await daemon.tcp.post(path, json=body)
        assert answer.status_code == 200, (path, answer.text)


BIASES = b",".join(b'"%d" : 1' % number for number in range(MOST_FIELDS))
TOO_MUCH: dict[str, tuple[bytes, str]] = {
    "fields": (b'{"logit_bias" : {%b}}' % BIASES, "262,144 fields"),
    "objects": (b'{"messages":[%b{}]}' % (b"{}," * MOST_FIELDS), "262,144 fields"),
    "lists": (b'{"prompt":[%b[]]}' % (b"[]," * MOST_FIELDS), "262,144 fields"),
    "numbers": (b'{"prompt":[%b1]}' % (b"1," * (MOST_ITEMS + 1)), "1,048,576 values"),
    "behind escapes": (
        b'{"x":"%b\\\\","prompt":[%b[]]}' % (b'\\"' * 2**18, b"[]," * MOST_FIELDS),
        "262,144 fields",
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_body_with_too_much_in_it_is_refused_undecoded(
    daemon: RunningDaemon, name: str
) -> None:
    body, bound = TOO_MUCH[name]
    refused = await daemon.tcp.post("/v1/completions", content=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith(f"The body has more than {bound}")
    # A text that has as many is no body that has them.
    text = {**GOOD, "messages": [{"role": "user", "content": body.decode()}]}
    answer = await daemon.tcp.post("/v1/chat/completions", json=text)
    assert "more than" not in answer.text


async def test_body_above_the_limit_is_413(run_daemon: DaemonFactory) -> None:
    async with run_daemon(max_body_bytes=10_000) as daemon:
        big = json.dumps({**GOOD, "x": "y" * 10_000}).encode()
        answer = await daemon.tcp.post("/v1/chat/completions", content=big)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "body_too_large"

        async def pieces(count: int):  # type: ignore[no-untyped-def]
            yield HEAD
            for _ in range(count):
                yield b" " * 1000
            yield b"}"

        # Without Content-Length, the limit is enforced while reading.
        answer = await daemon.tcp.post("/v1/chat/completions", content=pieces(20))
        assert answer.status_code == 413
        answer = await daemon.tcp.post("/v1/chat/completions", content=pieces(5))
        assert answer.status_code == 200


async def test_disconnect_during_the_body_ends_the_request(
    daemon: RunningDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"
    writer.write(head)
    await daemon.until(lambda: len(daemon.server.server_state.tasks) == 1)
    writer.close()
    await daemon.until(lambda: not daemon.server.server_state.tasks)
    assert not caplog.records


@pytest.mark.parametrize(
    "content",
    [
        b"POST /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"CONNECT evil.com:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)  # fmt: skip
async def test_malformed_http_is_400(
    daemon: RunningDaemon, raw: RawRequest, content: bytes
) -> None:
    answer = await raw(daemon.port, content)
    assert answer.startswith(b"HTTP/1.1 400")
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["message"] == "This is not a request of HTTP/1.1."
    assert error["hint"].endswith("path is not percent-encoded.")
    assert error["type"] == "invalid_request_error"
    assert (await daemon.tcp.get("/health")).status_code == 200


async def test_endless_headers_are_cut_off(daemon: RunningDaemon) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    writer.write(b"GET / HTTP/1.1\r\n")
    with pytest.raises(OSError, match=r"onnection|ipe"):  # noqa: PT012 - any of these writes may fail
        for _ in range(200):
            writer.write(b"X-A: " + b"a" * 1000 + b"\r\n")
            await writer.drain()
        if not await reader.read():
            raise ConnectionError("Connection closed")
    writer.close()


async def test_oversized_headers_are_431_and_start_no_request(
    daemon: RunningDaemon, raw: RawRequest
) -> None:
    content = b"POST /ingle/v1/shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-A: %s\r\n\r\n" % (
        b"a" * 70_000
    )
    answer = await raw(daemon.port, content)
    assert answer.startswith(b"HTTP/1.1 431")
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == "headers_too_large"
    assert daemon.shutdowns == []


@pytest.mark.slow
async def test_garbage_after_a_request_does_not_enter_its_response(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script=ENDLESS) as daemon:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        body = json.dumps({**GOOD, "model": "echo:1", "stream": True}).encode()
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        )
        writer.write(head % len(body) + body)
        received = await reader.readuntil(b"data: ")
        writer.write(b"\0\0\0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            received += await reader.read()
        writer.close()
        assert received.count(b"HTTP/1.1") == 1


async def test_404_and_405_errors_have_the_shape_of_their_prefix(
    daemon: RunningDaemon,
) -> None:
    for path in ("/v1/nope", "/v1/"):
        answer = await daemon.tcp.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "invalid_request_error"
    for path in ("/nope", "/ingle/v1/nope", "/ingle/v2/status", "/v1"):
        answer = await daemon.tcp.get(path)
        assert answer.status_code == 404
        assert set(answer.json()["error"]) == {"code", "message", "hint"}
    answer = await daemon.tcp.delete("/v1/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "method_not_allowed"
