"""llama-server endpoints over real sockets, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."


async def post(daemon: RunningDaemon, path: str, status: int = 200, **body: Any) -> Any:
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_whole_completion(daemon: RunningDaemon) -> None:
    answer = await post(daemon, "/completion", prompt="Hi", n_predict=64, seed=3)
    assert answer["content"] == REPLY
    assert answer["model"] == "echo:1"
    assert (answer["stop"], answer["stop_type"], answer["stopping_word"]) == (True, "eos", "")
    assert answer["tokens"] == []
    assert answer["prompt"] == "Hi"
    assert answer["tokens_evaluated"] == 3
    timings = answer["timings"]
    assert answer["tokens_cached"] == 2 + answer["tokens_predicted"]
    assert timings["prompt_n"] + timings["cache_n"] == 3
    assert timings["predicted_n"] == answer["tokens_predicted"]
    settings = answer["generation_settings"]
    assert (settings["seed"], settings["n_predict"], settings["stop"]) == (3, 64, [])
    assert (await post(daemon, "/completions", prompt="Hi"))["content"] == REPLY


@pytest.mark.parametrize(
    ("fields", "content", "stop_type", "word"),
    [
        ({"n_predict": 3}, "Hel", "limit", ""),
        ({"max_tokens": 3}, "Hel", "limit", ""),
        ({"n_predict": 0}, "", "limit", ""),
        ({"n_predict": -1, "stop": ["zz", " from"]}, "Hello", "word", " from"),
        ({"stop": ["", " from"]}, "Hello", "word", " from"),
    ],
)
async def test_stop_types(
    daemon: RunningDaemon, fields: dict[str, Any], content: str, stop_type: str, word: str
) -> None:
    answer = await post(daemon, "/completion", prompt="Hi", **fields)
    assert (answer["content"], answer["stop_type"]) == (content, stop_type)
    assert answer["stopping_word"] == word


async def test_all_prompt_forms(daemon: RunningDaemon) -> None:
    answers: list[Any]
    forms: list[tuple[Any, list[int]]] = [
        ("ab", [3]),
        ([97, 98], [2]),
        (["ab", 99], [4]),
        ([97, "bc"], [3]),
        (["ab", "c"], [3, 2]),
        ([[97], "bc", [97, "b"]], [1, 3, 2]),
        ({"prompt_string": "ab"}, [3]),
    ]
    for prompt, evaluated in forms:
        answer = await post(daemon, "/completion", prompt=prompt, n_predict=1)
        answers = answer if len(evaluated) > 1 else [answer]
        assert [one["tokens_evaluated"] for one in answers] == evaluated, prompt
        assert [one["index"] for one in answers] == list(range(len(evaluated)))
    both = await post(daemon, "/completion", prompt="Hi", n_cmpl=2, n_predict=2)
    assert [one["content"] for one in both] == ["He", "He"]


async def test_infill(run_daemon: DaemonFactory) -> None:
    script = {"reply": "a):\n    return a\nprint(1)\n", "step_seconds": 0.002}
    before = "x = 1\n" * 20 + "def f("
    infill: dict[str, Any] = {"input_prefix": before, "input_suffix": "\n", "prompt": "b, "}
    extra = [{"filename": "util.py", "text": "y = 2\n"}, {"text": "z = 3\n"}]
    async with run_daemon(script=script) as daemon:
        warmed = await post(daemon, "/infill", **infill, n_predict=0)
        assert (warmed["content"], warmed["tokens_predicted"]) == ("", 0)
        filled = await post(daemon, "/infill", **infill, n_predict=64, n_indent=4)
        assert filled["content"] == "a):\n    return a\n"
        assert (filled["stop_type"], filled["has_new_line"]) == ("limit", True)
        assert filled["timings"]["cache_n"] >= warmed["tokens_evaluated"] - 1
        assert filled["timings"]["predicted_n"] == filled["tokens_predicted"] > 0
        late = await post(daemon, "/infill", **infill, t_max_predict_ms=1)
        assert late["content"] == "a):\n"
        others = await post(daemon, "/infill", **infill, n_predict=1, input_extra=extra)
        assert others["tokens_evaluated"] > filled["tokens_evaluated"]


async def test_streamed_completion(daemon: RunningDaemon) -> None:
    body = {"prompt": "Hi", "stream": True, "return_progress": True, "timings_per_token": True}
    events = [data for _, data in await daemon.events("POST", "/completion", json=body)]
    progress, *chunks, last = events
    assert progress["prompt_progress"] == {"total": 3, "cache": 0, "processed": 0, "time_ms": 0}
    assert "".join(chunk["content"] for chunk in chunks) == REPLY
    assert not any(chunk["stop"] for chunk in chunks)
    assert chunks[-1]["timings"]["predicted_n"] == chunks[-1]["tokens_predicted"]
    assert (last["stop"], last["content"], last["stop_type"]) == (True, "", "eos")
    assert last["timings"]["predicted_n"] == last["tokens_predicted"]


async def test_response_fields_select_fields(daemon: RunningDaemon) -> None:
    paths = ["content", "timings/prompt_n", "generation_settings/n_predict", "nothing", "a/b"]
    answer = await post(daemon, "/completion", prompt="Hi", n_predict=2, response_fields=paths)
    assert answer == {"content": "He", "timings/prompt_n": 3, "generation_settings/n_predict": 2}
    assert await post(daemon, "/completion", prompt="Hi", n_predict=0, response_fields=[""]) == {}


async def test_n_probs_and_return_tokens(daemon: RunningDaemon) -> None:
    body: dict[str, Any] = {"prompt": "Hi", "n_predict": 2, "n_probs": 1, "return_tokens": True}
    answer = await post(daemon, "/completion", **body)
    assert answer["tokens"] == list(b"He")
    first = answer["completion_probabilities"][0]
    assert first == {
        "id": 72,
        "token": "H",
        "bytes": [72],
        "logprob": 0.0,
        "top_logprobs": [{"id": 72, "token": "H", "bytes": [72], "logprob": 0.0}],
    }


async def test_a_bias_of_a_text_applies_to_its_tokens(daemon: RunningDaemon) -> None:
    for biases in ([["ab", 5], [99, -1]], {"ab": 5, "99": -1}):
        answer = await post(daemon, "/completion", prompt="Hi", logit_bias=biases, n_predict=1)
        assert answer["generation_settings"]["logit_bias"] == [
            {"token": 99, "bias": -1.0},
            {"token": 97, "bias": 5.0},
            {"token": 98, "bias": 5.0},
        ]
    gap: dict[str, Any] = {"input_prefix": "x", "input_suffix": "y", "logit_bias": {"a": 5}}
    filled = await post(daemon, "/infill", **gap, n_predict=1)
    assert filled["generation_settings"]["logit_bias"] == [{"token": 97, "bias": 5.0}]


async def test_tokens_of_a_chat_are_counted(daemon: RunningDaemon) -> None:
    chat: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    counted = await post(daemon, "/v1/chat/completions/input_tokens", **chat)
    assert counted == await post(daemon, "/chat/completions/input_tokens", **chat)
    answered = await post(daemon, "/v1/chat/completions", **chat, max_tokens=1)
    assert counted["input_tokens"] == answered["usage"]["prompt_tokens"]


async def test_json_schema_and_grammar(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": "42"}) as daemon:
        schema = {"type": "integer"}
        assert (await post(daemon, "/completion", prompt="Hi", json_schema=schema))[
            "content"
        ] == "42"
        grammar = "root ::= [0-9]+"
        assert (await post(daemon, "/completion", prompt="Hi", grammar=grammar))["content"] == "42"
        wrong = await post(daemon, "/completion", 400, prompt="Hi", json_schema=3)
        assert wrong["error"]["type"] == "invalid_request_error"


async def test_errors_have_llama_servers_shape(daemon: RunningDaemon) -> None:
    missing = await post(daemon, "/completion", 400)
    assert set(missing["error"]) == {"code", "message", "type"}
    assert missing["error"]["code"] == 400
    unknown = await post(daemon, "/completion", 404, prompt="Hi", model="nobody")
    assert unknown["error"]["type"] == "not_found_error"
    long = (await post(daemon, "/completion", 400, prompt="x" * 600))["error"]
    assert long["type"] == "exceed_context_size_error"
    assert (long["n_prompt_tokens"], long["n_ctx"]) == (601, 512)
    infill = await post(daemon, "/infill", 400, input_prefix="a")
    assert "input_suffix" in infill["error"]["message"]
    props = await daemon.tcp.post("/props", json={})
    assert props.status_code == 405
    assert props.json()["error"]["code"] == 405


@pytest.mark.slow
async def test_error_in_a_stream_is_an_event(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"load_seconds": 0.6, "load_error": "It is broken."}) as daemon:
        body = {"prompt": "Hi", "stream": True}
        ((_, error),) = await daemon.events("POST", "/completion", json=body)
        assert error["error"]["code"] == 500
        assert "It is broken." in error["error"]["message"]


async def test_tokenize_and_detokenize(daemon: RunningDaemon) -> None:
    assert await post(daemon, "/tokenize", content="ab") == {"tokens": [97, 98]}
    assert await post(daemon, "/tokenize", content="a", add_special=True) == {"tokens": [256, 97]}
    assert await post(daemon, "/tokenize", content=["a", 98, "<|end|>"]) == {
        "tokens": [97, 98, 257]
    }
    unparsed = await post(daemon, "/tokenize", content="<|end|>", parse_special=False)
    assert len(unparsed["tokens"]) == 7
    pieces = await post(daemon, "/tokenize", content="aé", with_pieces=True)
    assert pieces["tokens"] == [
        {"id": 97, "piece": "a"},
        {"id": 195, "piece": [195]},
        {"id": 169, "piece": [169]},
    ]
    assert await post(daemon, "/tokenize") == {"tokens": []}
    long = await post(daemon, "/tokenize", 400, content=["a", "b" * 2**20])
    assert "1048577 characters" in long["error"]["message"]
    assert await post(daemon, "/detokenize", tokens=[97, 195, 169]) == {"content": "aé"}
    assert await post(daemon, "/detokenize", tokens=[]) == {"content": ""}
    unknown = await post(daemon, "/detokenize", 400, tokens=[5000])
    assert "5000" in unknown["error"]["message"]


async def test_apply_template(daemon: RunningDaemon) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    rendered = await post(daemon, "/apply-template", messages=messages)
    assert rendered == {"prompt": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"}


async def test_props_and_slots(daemon: RunningDaemon) -> None:
    async def get(path: str) -> Any:
        answer = await daemon.tcp.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    asleep = await get("/props")
    assert (asleep["model_alias"], asleep["is_sleeping"]) == ("echo:1", True)
    assert asleep["default_generation_settings"]["n_ctx"] == 512
    assert await get("/slots") == []
    await post(daemon, "/completion", prompt="Hi", n_predict=0)
    awake = await get("/props?model=echo:1")
    assert not awake["is_sleeping"]
    assert awake["total_slots"] == len(await get("/slots"))
    assert (await get("/slots?fail_on_no_slot=1"))[0]["is_processing"] is False
    assert await get("/lora-adapters") == []
    none = {"id": 0, "scale": 1.0}
    refused = await post(daemon, "/completion", 400, prompt="Hi", lora=[none])
    assert "has no adapter 0" in refused["error"]["message"]
    half = [{"id": 0, "scale": 0.5}]
    assert (
        "one adapter"
        in (await post(daemon, "/completion", 400, prompt="Hi", lora=half))["error"]["message"]
    )
    unused = [{"id": 0, "scale": 0.0}]
    assert (await post(daemon, "/completion", prompt="Hi", lora=unused))["content"] == REPLY
    assert (await daemon.tcp.post("/lora-adapters", json=[none])).status_code == 400
    assert (await daemon.tcp.post("/lora-adapters", json=unused)).json() == []
    assert (await daemon.tcp.get("/props?model=nobody")).status_code == 404


async def test_embedding_and_rerank_need_a_suitable_model(daemon: RunningDaemon) -> None:
    wrong = await post(daemon, "/embedding", 400, content="Hi")
    assert "embed" in wrong["error"]["message"]
    assert "content" in (await post(daemon, "/embeddings", 400))["error"]["message"]
    for path in ("/rerank", "/reranking"):
        refused = await post(daemon, path, 400, query="x", documents=["a"])
        assert "rank" in refused["error"]["message"]
    named = await daemon.tcp.post("/v1/reranking", json={"query": "x", "texts": []})
    assert json.loads(named.text)["error"]["param"] == "documents"


async def test_router_endpoints_load_and_unload_models(run_daemon: DaemonFactory) -> None:
    async with run_daemon(aliases=(("coder", "echo:1"),), script={"load_seconds": 0.1}) as daemon:

        async def status() -> str:
            (model,) = (await daemon.tcp.get("/models")).json()["data"]
            assert (model["id"], model["aliases"]) == ("echo:1", ["coder"])
            assert model["meta"]["n_ctx"] == 512
            return model["status"]["value"]

        assert await status() == "unloaded"
        stream = daemon.stream("GET", "/models/sse")
        collecting = asyncio.create_task(collect_statuses(stream))
        await daemon.until(lambda: daemon.services.hub.listeners == 1)
        assert await post(daemon, "/models/load", model="coder") == {"success": True}
        assert await status() == "loaded"
        assert await post(daemon, "/models/unload", model="echo:1") == {"success": True}
        statuses = await collecting
        assert await status() == "unloaded"
        assert (await post(daemon, "/models/load", 404, model="nobody"))["error"]["code"] == 404
    assert statuses[0] == {"status": "loading", "progress": statuses[0]["progress"]}
    assert [event["status"] for event in statuses[-2:]] == ["loaded", "unloaded"]


async def collect_statuses(stream: AsyncGenerator[tuple[str, Any]]) -> list[Any]:
    """The distinct status events of a model, until it is unloaded."""
    statuses: list[Any] = []
    async with aclosing(stream) as events:
        async for _, event in events:
            assert (event["model"], event["event"]) == ("echo:1", "model_status")
            if not statuses or statuses[-1]["status"] != event["data"]["status"]:
                statuses.append(event["data"])
            if event["data"]["status"] == "unloaded":
                break
    return statuses
