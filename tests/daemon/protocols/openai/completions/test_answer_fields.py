"""OpenAI logprobs, grammars and stop strings in answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ingle.backends.base.events import Delta, TokenLogprobs
from ingle.daemon.protocols.openai.completions.chunk_stream import CompletionScores, chat_logprobs

if TYPE_CHECKING:
    from ....conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"
REPLY = "né!"
BYTES = list(REPLY.encode())


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}], **fields}


def test_chat_logprobs_have_token_bytes() -> None:
    scores = [TokenLogprobs(1, -0.5, [(1, -0.5), (2, -1.5)])]
    delta = Delta("a", 0, "", [1], scores, {1: b"\xc3", 2: b" x"})
    logprobs = chat_logprobs(delta)
    assert logprobs is not None
    (token,) = logprobs.content
    assert (token.token, token.logprob, token.bytes) == ("\ufffd", -0.5, [0xC3])
    assert [(t.token, t.logprob, t.bytes) for t in token.top_logprobs] == [
        ("\ufffd", -0.5, [0xC3]),
        (" x", -1.5, [0x20, 0x78]),
    ]
    assert chat_logprobs(Delta("a", 0, "x", [1])) is None


def test_completion_text_offsets_span_all_chunks() -> None:
    names = {1: b"h\xc3", 2: b"\xa9", 3: b" you", 4: b"h\xc3"}
    scores = CompletionScores()
    first = scores.take(Delta("a", 0, "h", [1], [TokenLogprobs(1, -3.0, [(4, -1.0)])], names))
    rest = [TokenLogprobs(2, -0.1), TokenLogprobs(3, -0.2, [(3, -0.2)])]
    scores.take(Delta("a", 0, "é you", [2, 3], rest, names))
    assert first is not None
    assert first.top_logprobs == [{"h\ufffd": -3.0}], "the chosen one counts, if two look alike"
    whole = scores.whole
    assert whole.text_offset == [0, 1, 2]
    assert whole.token_logprobs == [-3.0, -0.1, -0.2]
    assert whole.tokens[2] == " you"
    assert whole.top_logprobs[1:] == [{"\ufffd": -0.1}, {" you": -0.2}]


async def test_chat_logprobs_whole_and_streamed(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": REPLY}) as daemon:
        body = chat(logprobs=True, top_logprobs=3)
        (choice,) = (await daemon.tcp.post(CHAT, json=body)).json()["choices"]
        content = choice["logprobs"]["content"]
        assert choice["logprobs"]["refusal"] is None
        assert [token["bytes"] for token in content] == [[byte] for byte in BYTES]
        assert content[0] == {
            "token": "n",
            "logprob": 0.0,
            "bytes": [110],
            "top_logprobs": [{"token": "n", "logprob": 0.0, "bytes": [110]}],
        }
        streamed: list[Any] = []
        for _, chunk in (await daemon.events("POST", CHAT, json={**body, "stream": True}))[:-1]:
            (part,) = chunk["choices"]
            streamed += part["logprobs"]["content"] if part["logprobs"] else []
        assert streamed == content
        (choice,) = (await daemon.tcp.post(CHAT, json=chat(logprobs=True))).json()["choices"]
        assert [token["top_logprobs"] for token in choice["logprobs"]["content"]] == [[]] * 4
        (choice,) = (await daemon.tcp.post(CHAT, json=chat())).json()["choices"]
        assert choice["logprobs"] is None


async def test_completion_logprobs_whole_and_streamed(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": "abc"}) as daemon:
        body = {"model": "echo:1", "prompt": "Hi", "logprobs": 2}
        (choice,) = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"]
        assert choice["logprobs"] == {
            "tokens": ["a", "b", "c"],
            "token_logprobs": [0.0] * 3,
            "top_logprobs": [{"a": 0.0}, {"b": 0.0}, {"c": 0.0}],
            "text_offset": [0, 1, 2],
        }
        events = await daemon.events("POST", "/v1/completions", json={**body, "stream": True})
        parts = [c["choices"][0]["logprobs"] for _, c in events[:-1] if c["choices"][0]["logprobs"]]
        for name, values in choice["logprobs"].items():
            assert [value for part in parts for value in part[name]] == values
        for logprob_count in (0, True):
            answer = await daemon.tcp.post(
                "/v1/completions", json={**body, "logprobs": logprob_count}
            )
            (choice,) = answer.json()["choices"]
            assert choice["logprobs"]["tokens"] == ["a", "b", "c"]


async def test_tokens_of_a_stop_string_have_logprobs(run_daemon: DaemonFactory) -> None:
    """Their tokens were generated and are counted, though their text is not returned."""
    async with run_daemon(script={"reply": "abcdef"}) as daemon:
        body = chat(logprobs=True, stop="cd")
        answer = (await daemon.tcp.post(CHAT, json=body)).json()
        (choice,) = answer["choices"]
        assert choice["message"]["content"] == "ab"
        tokens = [token["token"] for token in choice["logprobs"]["content"]]
        assert tokens == ["a", "b", "c", "d"]
        assert answer["usage"]["completion_tokens"] == 4


async def test_grammar_is_applied_or_refused(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": '{"a": 1} and more'}) as daemon:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        grammar_format: dict[str, Any] = {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": schema},
        }
        (choice,) = (await daemon.tcp.post(CHAT, json=chat(response_format=grammar_format))).json()[
            "choices"
        ]
        assert (choice["message"]["content"], choice["finish_reason"]) == ('{"a": 1}', "stop")
        grammar_format["json_schema"] = {"name": "n", "schema": {"enum": []}}
        for stream in (False, True):
            body = chat(response_format=grammar_format, stream=stream)
            answer = await daemon.tcp.post(CHAT, json=body)
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            assert (error["code"], error["param"]) == ("invalid_schema", "response_format")
            assert "empty" in error["message"]
        answer = await daemon.tcp.post(CHAT, json=chat(grammar="root ::= [0-9]+"))
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "grammar_failed"


async def test_native_generation_with_a_format(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": "yes and more"}) as daemon:
        body: dict[str, Any] = {"prompt": "Hi", "format": {"choice": ["yes", "no"]}}
        started = (await daemon.unix.post("/ingle/v1/generations", json=body)).json()
        path = f"/ingle/v1/generations/{started['id']}/events"
        events = await daemon.events("GET", path)
        assert "".join(data["text"] for name, data in events if name == "delta") == "yes"
        body["format"] = {"json": {"enum": []}}
        started = (await daemon.unix.post("/ingle/v1/generations", json=body)).json()
        events = await daemon.events("GET", f"/ingle/v1/generations/{started['id']}/events")
        assert events[-1][0] == "error"
        assert events[-1][1]["error"]["code"] == "invalid_schema"
