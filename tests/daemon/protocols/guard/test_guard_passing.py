"""What a guarded program gets: its provider's answers restored, and refusals it can show."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from typing import Any

import httpx
import pytest

from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.protocols.guard.conftest import (
    BODIES,
    Upstream,
    anthropic_body,
    begin,
    chat_body,
    responses_body,
)

TOKEN = "sk-ant-oat01-my-own-login"
HEADERS = {
    "content-type": "application/json",
    "authorization": f"Bearer {TOKEN}",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "oauth-2025-04-20,claude-code-20250219",
    "x-app": "cli",
}
EMAIL = "ruth.hollander@brandtlogistik.de"
FILE = f"     1\tThe contact of the shop is {EMAIL}, as before.\n"
HARMLESS = "     1\tdef add(a, b):\n     2\t    return a + b\n"
PATHS = {name: path for name, (path, _) in BODIES.items()}


def event(data: dict[str, Any], name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


async def post(daemon: RunningDaemon, path: str, body: bytes, **more: str) -> httpx.Response:
    return await daemon.tcp.post(path, content=body, headers=HEADERS | more, timeout=60)


@pytest.mark.parametrize("protocol", BODIES)
async def test_harmless_requests_are_the_programs_own(
    run_daemon: DaemonFactory, upstream: Upstream, protocol: str
) -> None:
    path, make_body = BODIES[protocol]
    body = make_body(HARMLESS)
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        answer = await post(daemon, base + path, body)
        assert (answer.status_code, answer.content) == (200, b'{"ok":true}')
        assert answer.headers["request-id"] == "req_1"
        entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
        home = daemon.services.config.paths.ledger.parent.parent
        written = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    head, _, sent = upstream.requests[0].partition(b"\r\n\r\n")
    assert sent == body
    lines = head.decode().split("\r\n")
    own = path.split("/", 2)[2]
    assert lines[0] == f"POST /{own} HTTP/1.1"
    assert [f"{name}: {value}" for name, value in HEADERS.items()] == [
        line for line in lines if line.partition(":")[0] in HEADERS
    ]
    assert lines[1] == f"host: 127.0.0.1:{upstream.port}"
    (entry,) = entries
    assert entry["provider"] == f"guard/127.0.0.1:{upstream.port}"
    assert (entry["verdict"], entry["outcome"]) == ("cloud", "complete")
    assert entry["bytes_out"] == len(upstream.requests[0])
    assert TOKEN.encode() not in written


async def test_other_paths_are_passed_on(run_daemon: DaemonFactory, upstream: Upstream) -> None:
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        models = await daemon.tcp.get(
            f"{base}/anthropic/v1/models?limit=1000&after_id=a%20b", headers=HEADERS, timeout=60
        )
        counted = await post(
            daemon, f"{base}/anthropic/v1/messages/count_tokens", anthropic_body(HARMLESS)
        )
    assert models.status_code == counted.status_code == 200
    assert upstream.requests[0].startswith(b"GET /v1/models?limit=1000&after_id=a%20b HTTP/1.1\r\n")
    assert b"content-length" not in upstream.requests[0]
    assert upstream.requests[1].startswith(b"POST /v1/messages/count_tokens HTTP/1.1\r\n")


async def test_accounts_of_chatgpt_have_a_server_of_their_own(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    servers = {
        "openai": f"{upstream.url}/v1",
        "chatgpt": f"{upstream.url}/backend-api/codex",
    }
    async with run_daemon() as daemon:
        started = await daemon.unix.post("/ingle/v1/guard", json={"upstreams": servers})
        path = started.json()["path"] + PATHS["responses"]
        await post(daemon, path, responses_body(HARMLESS))
        await post(daemon, path, responses_body(HARMLESS), **{"chatgpt-account-id": "acc-1"})
    lines = [request.partition(b"\r\n")[0] for request in upstream.requests]
    assert lines == [
        b"POST /v1/responses HTTP/1.1",
        b"POST /backend-api/codex/responses HTTP/1.1",
    ]
    assert b"\r\nchatgpt-account-id: acc-1\r\n" in upstream.requests[1]


ANTHROPIC_ANSWER = [
    event({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}, "message_start"),
    event({"type": "ping"}, "ping"),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "It is [EM"},
        },
        "content_block_delta",
    ),
    event({"type": "ping"}, "ping"),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "AIL_1] or EMAIL_1"},
        },
        "content_block_delta",
    ),
    event({"type": "content_block_stop", "index": 0}, "content_block_stop"),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"to": "[EMAIL'},
        },
        "content_block_delta",
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '_1]"}'},
        },
        "content_block_delta",
    ),
    event({"type": "content_block_stop", "index": 1}, "content_block_stop"),
    event({"type": "message_delta", "usage": {"output_tokens": 7}}, "message_delta"),
]
CHAT_ANSWER = [
    event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
    event({"choices": [{"index": 0, "delta": {"content": "It is [EM"}}]}),
    event({"choices": [{"index": 0, "delta": {"content": "AIL_1] or EMAIL_1"}}]}),
    event({"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "call_9", "function": {"name": "mail", "arguments": '{"to": "[EMAIL'}}
    ]}}]}),
    event({"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": '_1]"}'}}
    ]}}]}),
    event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}),
    "data: [DONE]\n\n",
]  # fmt: skip
RESPONSES_ANSWER = [
    event({"type": "response.output_text.delta", "output_index": 0, "delta": "It is [EM"}),
    event({"type": "response.output_text.delta", "output_index": 0, "delta": "AIL_1] or EMAIL_1"}),
    event({"type": "response.output_text.done", "output_index": 0, "text": "It is [EMAIL_1]"}),
    event(
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 1,
            "delta": '{"to": "[EMAIL_1]"}',
        }
    ),
    event(
        {
            "type": "response.function_call_arguments.done",
            "output_index": 1,
            "arguments": '{"to": "[EMAIL_1]"}',
        }
    ),
    event(
        {
            "type": "response.completed",
            "response": {"usage": {"input_tokens": 9, "output_tokens": 7}},
        }
    ),
]


def pieces(answer: str) -> tuple[str, str]:
    """Return the text and the arguments that a client of any protocol puts together."""
    text = arguments = ""
    for line in answer.splitlines():
        if not line.startswith("data: {"):
            continue
        data: Any = json.loads(line.removeprefix("data: "))
        delta: Any = data.get("delta")
        if isinstance(delta, str):
            arguments += delta if "arguments" in data["type"] else ""
            text += delta if "text" in data["type"] else ""
        elif delta is not None:
            text += delta.get("text", "")
            arguments += delta.get("partial_json", "")
        for choice in data.get("choices", []):
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", []):
                arguments += call["function"]["arguments"]
    return text, arguments


@pytest.mark.parametrize(
    ("path", "body", "events"),
    [
        (PATHS["messages"], anthropic_body(FILE), ANTHROPIC_ANSWER),
        (PATHS["chat"], chat_body(FILE), CHAT_ANSWER),
        (PATHS["responses"], responses_body(FILE), RESPONSES_ANSWER),
    ],
    ids=list(BODIES),
)
async def test_values_are_restored_as_they_stream(
    run_daemon: DaemonFactory, upstream: Upstream, path: str, body: bytes, events: list[str]
) -> None:
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        for cut in (0, 1, 7, 64):
            upstream.stream(*events, cut=cut)
            answer = await post(daemon, base + path, body)
            assert pieces(answer.text) == (f"It is {EMAIL} or {EMAIL}", f'{{"to": "{EMAIL}"}}')
            assert "EMAIL" not in answer.text.replace("call_9", "")
            # Only events with values differ from the provider's.
            same = [one for one in events if "[EM" not in one and "_1]" not in one]
            assert [one for one in same if one not in answer.text] == []
        entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert EMAIL.encode() not in upstream.everything
    assert upstream.bodies == [upstream.bodies[0]] * 4  # what a provider caches stays equal
    assert {(one["prompt_tokens"], one["completion_tokens"]) for one in entries} == {(9, 7)}
    assert {tuple(one["redacted"]) for one in entries} == {("email",)}


async def test_answers_in_one_piece_are_restored(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    body = b'{"content":[{"type":"text","text":"[EMAIL_1]\\u0021"},{"n":1.50}]}'
    upstream.pieces = [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(body),
        body,
    ]
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        answer = await post(daemon, base + PATHS["messages"], anthropic_body(FILE))
        assert answer.text == (f'{{"content":[{{"type":"text","text":"{EMAIL}!"}},{{"n":1.50}}]}}')


async def test_signed_thoughts_return_unchanged(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    """The provider refuses a thought of its own that was changed, even to mask it."""
    thought = f"Perhaps [EMAIL_1] is a copy of {EMAIL[::-1].replace('ed.', 'ed@x.')} or a@b-c.de."
    signature = gzip.compress(bytes(range(256)) * 4).hex()
    delta = {"type": "content_block_delta", "index": 0}
    upstream.stream(
        event({**delta, "delta": {"type": "thinking_delta", "thinking": thought[:20]}}),
        event({**delta, "delta": {"type": "thinking_delta", "thinking": thought[20:]}}),
        event({**delta, "delta": {"type": "signature_delta", "signature": signature}}),
        event({"type": "content_block_stop", "index": 0}),
    )
    block = {"type": "thinking", "thinking": thought, "signature": signature}
    turn = json.loads(anthropic_body(FILE))
    turn["messages"] += [
        {"role": "assistant", "content": [block, {"type": "text", "text": "Done."}]},
        {"role": "user", "content": "Go on."},
    ]
    following = json.dumps(turn).encode()
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        refused = await post(daemon, base + PATHS["messages"], following)
        first = await post(daemon, base + PATHS["messages"], anthropic_body(FILE))
        second = await post(daemon, base + PATHS["messages"], following)
    assert refused.status_code == 400  # not known as the provider's
    assert (first.status_code, second.status_code) == (200, 200)
    assert json.loads(upstream.bodies[1])["messages"][3]["content"][0] == block
    assert EMAIL.encode() not in upstream.everything


async def test_what_cannot_be_masked_is_refused_or_answered_here(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    ill = "My wife was diagnosed with breast cancer 3 weeks ago and her doctor is worried."
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        refused = await post(daemon, base + PATHS["messages"], anthropic_body(ill))
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert f"ingle did not send this request to 127.0.0.1:{upstream.port}" in error["message"]
        at_home = await begin(daemon, upstream, local="echo:1")
        turn = {"model": "gpt-5.5", "messages": [{"role": "user", "content": ill}], "max_tokens": 8}
        for protocol in ("messages", "chat"):
            answer = await post(daemon, at_home + PATHS[protocol], json.dumps(turn).encode())
            assert answer.status_code == 200, answer.text
            assert answer.json()["model"] == "echo:1"
        summary = (await daemon.unix.delete(f"/ingle/v1{at_home}")).json()
    assert upstream.requests == []
    assert (summary["sent"], summary["refused"], summary["answered_here"]) == (0, 0, 2)


async def test_paths_below_a_masked_folder_stay_readable(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    """What the model writes of its folder is what it reads in the next turn."""
    turn = json.loads(anthropic_body("ok"))
    turn["system"][0]["text"] = "Working directory: /home/ruth/shop"
    turn["messages"][1]["content"][0]["input"] = {"file_path": "/home/ruth/shop/src/a.py"}
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        answer = await post(daemon, base + PATHS["messages"], json.dumps(turn).encode())
        assert answer.status_code == 200, answer.text
    sent = json.loads(upstream.bodies[0])
    assert sent["system"][0]["text"] == "Working directory: [FILE_PATH_1]/shop"
    assert sent["messages"][1]["content"][0]["input"] == {
        "file_path": "[FILE_PATH_1]/shop/src/a.py"
    }


async def test_ids_of_the_program_are_its_own(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    session = "fd5c1b4e-2f0a-4c57-9d39-6f1b1c9a0b7e"
    user = json.dumps({"device_id": "40195c03" * 8, "session_id": session})
    turn = json.loads(anthropic_body(HARMLESS)) | {"metadata": {"user_id": user}}
    body = json.dumps(turn).encode()
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream, strict=True)
        sent = {"x-claude-code-session-id": session, "x-note": f"from {EMAIL}"}
        answer = await post(daemon, base + PATHS["messages"], body, **sent)
        assert answer.status_code == 200, answer.text
    assert upstream.bodies == [body]
    assert f"x-claude-code-session-id: {session}\r\n".encode() in upstream.requests[0]
    assert b"x-note: from [EMAIL_1]\r\n" in upstream.requests[0]


async def test_attacks_on_bodies(run_daemon: DaemonFactory, upstream: Upstream) -> None:
    body, path = chat_body(FILE), PATHS["chat"]
    nested = b'{"a":' * 200 + b"1" + b"}" * 200
    twice = b'{"messages":[{"role":"user","content":"%b","content":"hi"}]}' % EMAIL.encode()
    async with run_daemon(max_body_bytes=100_000) as daemon:
        base = await begin(daemon, upstream)
        for broken in (b'{"messages": [', b"\xff{}", b"hello", nested):
            answer = await post(daemon, base + path, broken)
            assert answer.status_code == 400, broken
        bomb = gzip.compress(b'{"a": "' + b" " * 10_000_000 + b'"}')
        for sent, coding, status in (
            (bomb, "gzip", 413),
            (b"not gzip", "gzip", 400),
            (body, "zstd", 415),
            (body + b" " * 100_000, "", 413),
        ):
            more = {"content-encoding": coding} if coding else {}
            assert (await post(daemon, base + path, sent, **more)).status_code == status
        assert upstream.requests == []
        packed = await post(
            daemon, base + path, gzip.compress(body), **{"content-encoding": "gzip"}
        )
        harmless = gzip.compress(chat_body(HARMLESS))
        same = await post(daemon, base + path, harmless, **{"content-encoding": "gzip"})

        async def chunks():
            for at in range(0, len(body), 50):
                yield body[at : at + 50]

        chunked = await daemon.tcp.post(base + path, content=chunks(), headers=HEADERS, timeout=60)
        doubled = await post(daemon, base + path, twice)
        # Half an emoji, as JavaScript cuts texts.
        halved = await post(daemon, base + path, rb'{"a": "cut \ud83d"}')
        assert [one.status_code for one in (packed, same, chunked, doubled, halved)] == [200] * 5
    assert upstream.bodies[0] == upstream.bodies[2] == body.replace(EMAIL.encode(), b"[EMAIL_1]")
    assert b"content-encoding" not in upstream.requests[0]
    assert upstream.bodies[1] == harmless
    assert upstream.bodies[-1] == rb'{"a": "cut \ufffd"}'
    assert b"content-encoding: gzip" in upstream.requests[1]
    assert EMAIL.encode() not in upstream.everything


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n", 502),
        (b"", 504),
        (b"nonsense\r\n\r\n", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 0\r\n\r\n", 502),
        (b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}", 429),
    ],
)
async def test_answers_that_are_errors(
    run_daemon: DaemonFactory, upstream: Upstream, reply: bytes, status: int
) -> None:
    upstream.pieces = [reply]
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        answer = await post(daemon, base + PATHS["messages"], anthropic_body(HARMLESS))
        assert answer.status_code == status, answer.text
        assert answer.headers.get("retry-after") == ("7" if status == 429 else None)
        daemon.services.egress.flush()
        entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert len(upstream.requests) == 1
    assert entries[0]["outcome"] == ("refused" if status == 429 else "failed")


async def test_a_program_that_leaves_ends_its_call(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    upstream.hang = asyncio.Event()
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        asking = asyncio.create_task(
            post(daemon, base + PATHS["messages"], anthropic_body(HARMLESS))
        )
        async with asyncio.timeout(60):
            while not upstream.requests:
                await asyncio.sleep(0.01)
        asking.cancel()
        async with asyncio.timeout(60):
            entry: dict[str, Any] = {"outcome": "unknown"}
            while entry["outcome"] == "unknown":
                entry = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"][0]
        upstream.hang.set()
    assert entry["outcome"] == "cancelled"


async def test_only_the_program_with_the_secret_passes(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    async with run_daemon() as daemon:
        base = await begin(daemon, upstream)
        wrong = await post(daemon, f"{base}x{PATHS['messages']}", anthropic_body(HARMLESS))
        page = await post(
            daemon, base + PATHS["messages"], anthropic_body(HARMLESS), origin="https://a.example"
        )
        other = await post(daemon, f"{base}/mistral/v1/chat", b"{}")
        socket = await daemon.tcp.get(
            f"{base}/openai/responses",
            headers={
                "upgrade": "websocket",
                "connection": "upgrade",
                "sec-websocket-version": "13",
            },
        )
        bad = await daemon.unix.post(
            "/ingle/v1/guard", json={"upstreams": {"anthropic": "http://example.com"}}
        )
        gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await gone.wait()
        named = {"upstreams": {"anthropic": upstream.url}, "pid": gone.pid}
        orphan = (await daemon.unix.post("/ingle/v1/guard", json=named)).json()["path"]
        dead = await post(daemon, orphan + PATHS["messages"], anthropic_body(HARMLESS))
        await daemon.unix.delete(f"/ingle/v1{base}")
        ended = await post(daemon, base + PATHS["messages"], anthropic_body(HARMLESS))
    statuses = [one.status_code for one in (wrong, page, other, socket, bad, dead, ended)]
    assert statuses == [404, 403, 404, 426, 400, 404, 404]
    assert "use HTTP" in socket.json()["error"]["message"]
    assert upstream.requests == []


async def test_offline_sends_nothing(run_daemon: DaemonFactory, upstream: Upstream) -> None:
    async with run_daemon(offline=True) as daemon:
        base = await begin(daemon, upstream)
        answer = await post(daemon, base + PATHS["messages"], anthropic_body(HARMLESS))
        assert (answer.status_code, upstream.requests) == (403, [])
