"""The lazy diet through every protocol: clients receive what they would without one."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from ingle.daemon.diet.own_rounds import MOST_ROUNDS
from ingle.daemon.load_planning.load_options import LoadOptions
from tests.daemon.conftest import DaemonFactory, RunningDaemon

WORDS = "It says more about files and lines than one needs to know before the first call. " * 12
READ = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file. " + WORDS},
        "limit": {"type": "integer", "description": "The lines at most. " + WORDS},
    },
    "required": ["path"],
}
NAMES = ("read_file", "run", "search", "write_file", "list_files", "edit_file")
CALL = (
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt", "limit": 7}}\n</tool_call>'
)
DESCRIBED = "Result of describe_tool:"


def own_call(name: str, /, **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def functions(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": f"Does {name}. {WORDS}"} for name in names or NAMES]


def body(path: str, *names: str, stream: bool = False, **more: Any) -> dict[str, Any]:
    said: list[Any] = more.pop("messages", [{"role": "user", "content": "Read a.txt."}])
    tools = functions(*names)
    wrapped = [{"type": "function", "function": {**tool, "parameters": READ}} for tool in tools]
    common = {"model": "echo:1", "stream": stream, **more}
    match path:
        case "/v1/messages":
            tools = [{**tool, "input_schema": READ} for tool in tools]
            return {**common, "messages": said, "max_tokens": 900, "tools": tools}
        case "/v1/responses":
            tools = [{**tool, "type": "function", "parameters": READ} for tool in tools]
            return {**common, "input": said, "tools": tools}
        case "/v1/chat/completions":
            usage = {"stream_options": {"include_usage": True}} if stream else {}
            return {**common, **usage, "messages": said, "tools": wrapped}
        case _:
            return {**common, "messages": said, "tools": wrapped}


PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat")


@pytest.fixture
def on_diet(run_daemon: DaemonFactory) -> Any:
    """A daemon with a diet, whose model answers by what its prompt holds."""

    @asynccontextmanager
    async def start(
        replies: dict[str, str], diet: str = "lazy", context: int = 32_768
    ) -> AsyncGenerator[RunningDaemon]:
        script = {"replies": replies or {"": CALL}}
        async with run_daemon(script=script, agent_diet=diet, context=context) as daemon:
            options = LoadOptions(context=context)
            async with daemon.services.manager.lease("echo:1", options=options):
                yield daemon

    return start


_CHANGING = re.compile(r"^(id|.*_id|created.*|.*_at|.*duration.*|timings|system_fingerprint|seed)$")
_COUNTED = ("usage", "prompt_eval_count", "eval_count", "ingle")


def compared(value: Any) -> Any:
    """A part of an answer without ids, times and counts of tokens."""
    if isinstance(value, list):
        return [compared(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        kept = {k: v for k, v in fields.items() if not _CHANGING.match(k) and k not in _COUNTED}
        return {key: compared(each) for key, each in kept.items() if key != "sequence_number"}
    return value


async def answered(daemon: RunningDaemon, path: str, **more: Any) -> Any:
    answer = await daemon.tcp.post(path, json=body(path, **more))
    assert answer.status_code == 200, answer.text
    if not more.get("stream"):
        return answer.json()
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_client_receives_what_it_does_without_a_diet(
    on_diet: Any, path: str, stream: bool
) -> None:
    replies = {DESCRIBED: CALL, "describe_tool": own_call("describe_tool", name="read_file")}
    async with on_diet({}, "off") as daemon:
        plain = await answered(daemon, path, stream=stream)
    async with on_diet(replies) as daemon:
        lazy = await answered(daemon, path, stream=stream)
    assert "describe_tool" not in json.dumps(lazy)
    if path == "/v1/messages" and stream:
        plain, lazy = ([e for e in answer if e["type"] != "ping"] for answer in (plain, lazy))
    assert compared(lazy) == compared(plain)
    assert stream or "limit" in json.dumps(lazy)


async def chat(daemon: RunningDaemon, *names: str, **more: Any) -> tuple[Any, list[str]]:
    """An answer to a chat completion, and the prompts of all turns of the model."""
    prompts: list[str] = []
    async with daemon.unix.stream("GET", "/ingle/v1/watch") as stream:
        events = stream.aiter_lines()
        sent = body("/v1/chat/completions", *names, **more)
        answer = await daemon.tcp.post("/v1/chat/completions", json=sent)
        assert answer.status_code == 200, answer.text
        async for line in events:
            if not line.startswith("data: "):
                continue
            seen = json.loads(line.removeprefix("data: "))
            kept = await daemon.unix.get(f"/ingle/v1/watch/{seen['id']}")
            prompts.append(kept.json()["text"])
            own = {"describe_tool", "recall_result"} & {*seen["calls"]}
            if not own or len(prompts) == MOST_ROUNDS:
                break
    return answer.json(), prompts


async def test_description_stays_where_the_model_read_it(on_diet: Any) -> None:
    replies = {
        "\nthe text": "Done.",
        DESCRIBED: CALL,
        "": own_call("describe_tool", name="read_file"),
    }
    async with on_diet(replies) as daemon:
        answer, (first, second) = await chat(daemon)
        assert "The lines at most." not in first
        assert '"path"' in first
        assert "The lines at most." in second
        assert second.startswith(first.removesuffix("<|im_start|>assistant\n"))
        message = answer["choices"][0]["message"]
        result = {"tool_call_id": message["tool_calls"][0]["id"], "content": "the text"}
        said = [
            {"role": "user", "content": "Read a.txt."},
            {key: value for key, value in message.items() if value is not None},
            {"role": "tool", **result},
        ]
        later, (third,) = await chat(daemon, messages=said)
        assert third.startswith(second)
    assert later["choices"][0]["message"]["content"] == "Done."
    usage, words = answer["usage"], len(own_call("describe_tool", name="read_file"))
    assert words < usage["completion_tokens"] < words + len(CALL) + 3
    assert abs(usage["total_tokens"] - len(second) - len(CALL)) < 100
    assert later["usage"]["prompt_tokens_details"]["cached_tokens"] > len(first)


async def test_model_is_told_what_is_wrong_with_a_call(on_diet: Any) -> None:
    replies = {
        "is no tool ['run']": "Sorry.",
        "is no tool 'fly'": own_call("describe_tool", name=["run"]),
        "digest {'a': 1}": own_call("describe_tool", name="fly"),
        "is no tool 'x'": own_call("recall_result", digest={"a": 1}),
        "": '<tool_call>\n{"name": "describe_tool", "arguments": "x"}\n</tool_call>',
    }
    async with on_diet(replies) as daemon:
        answer, prompts = await chat(daemon)
    assert len(prompts) == MOST_ROUNDS
    assert f"The tools are {', '.join(NAMES)}." in prompts[-1]
    assert answer["choices"][0]["message"]["content"] == "Sorry."
    assert answer["choices"][0]["finish_reason"] == "stop"


async def test_model_that_only_asks_is_ended(on_diet: Any) -> None:
    async with on_diet({"": own_call("describe_tool", name="run")}) as daemon:
        answer, prompts = await chat(daemon)
    assert len(prompts) == MOST_ROUNDS
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert not answer["choices"][0]["message"].get("tool_calls")


async def test_own_call_beside_a_clients_is_left_out(on_diet: Any) -> None:
    both = own_call("describe_tool", name="run") + "\n" + CALL
    async with on_diet({"": both}) as daemon:
        answer = await answered(daemon, "/v1/chat/completions")
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "read_file"
        assert answer["choices"][0]["finish_reason"] == "tool_calls"
        assert answer["usage"]["completion_tokens"] >= len(both)
        streamed = await answered(daemon, "/v1/messages", stream=True)
    begun = [event for event in streamed if event["type"] == "content_block_start"]
    assert [event["content_block"]["name"] for event in begun] == ["read_file"]
    assert begun[0]["index"] == 0


async def test_client_with_tools_of_our_names_gets_their_calls(on_diet: Any) -> None:
    names = (*NAMES, "describe_tool", "recall_result")
    replies = {
        "Result of describe_tool_2:": own_call("describe_tool", path="x"),
        "": own_call("describe_tool_2", name="describe_tool"),
    }
    async with on_diet(replies) as daemon:
        answer = await daemon.tcp.post(
            "/v1/chat/completions", json=body("/v1/chat/completions", *names)
        )
    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "describe_tool", "arguments": '{"path":"x"}'}


async def test_tokens_are_counted_with_the_diet(on_diet: Any) -> None:
    async with on_diet({}) as daemon:
        counted = await daemon.tcp.post(
            "/v1/messages/count_tokens", json=body("/v1/messages", stream=False)
        )
        sent = await answered(daemon, "/v1/messages")
    assert counted.json()["input_tokens"] == sum(
        sent["usage"][name] for name in ("input_tokens", "cache_read_input_tokens")
    )


async def test_budget_of_tokens_covers_all_turns(on_diet: Any) -> None:
    asked = own_call("describe_tool", name="read_file")
    async with on_diet({DESCRIBED: "x" * 500, "": asked}) as daemon:
        most = len(asked) + 41
        answer = await answered(daemon, "/v1/chat/completions", max_tokens=most)
        short = await answered(daemon, "/v1/chat/completions", max_tokens=len(asked) - 5)
    assert answer["usage"]["completion_tokens"] == most
    assert answer["choices"][0]["finish_reason"] == "length"
    assert set(answer["choices"][0]["message"]["content"]) == {"x"}
    assert short["choices"][0]["finish_reason"] == "length"
    assert not short["choices"][0]["message"].get("tool_calls")


async def test_old_result_is_recalled(on_diet: Any) -> None:
    def turn(number: int, text: str) -> list[dict[str, Any]]:
        function = {"name": "run", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
        ]

    old = "first line\n" + "old words of a result\n" * 750 + "the end of it"
    new = "new words of a result\n" * 50
    said = [{"role": "user", "content": "Go."}, *turn(1, old), *turn(2, new)]
    async with on_diet({"": "Done."}, context=16_384) as daemon:
        _, (first,) = await chat(daemon, messages=said)
        assert "the end of it" not in first
        assert "first line" in first
        assert new in first
        digest = re.search(r'digest "([0-9a-f]+)" returns all', first)
        assert digest is not None
        more = [*said, *turn(3, "short")]
        _, (second,) = await chat(daemon, messages=more)
        assert second.startswith(first.removesuffix("<|im_start|>assistant\n"))
    replies = {
        "the end of it": "Found.",
        '"start": 8192 returns the rest': own_call(
            "recall_result", digest=digest[1], start=len(old) - 99
        ),
        "": own_call("recall_result", digest=digest[1]),
    }
    async with on_diet(replies, context=16_384) as daemon:
        answer, prompts = await chat(daemon, messages=said)
    assert answer["choices"][0]["message"]["content"] == "Found."
    assert len(prompts) == 3
