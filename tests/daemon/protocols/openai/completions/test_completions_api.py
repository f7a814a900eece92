"""OpenAI's chat and completion endpoints over real sockets, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingle.backends.base.conversation import Infill
from ingle.backends.base.events import Delta, Event, Finished, FinishReason, Started, TokenLogprobs
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import Priority
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.ingle_options import RequestOrigin
from ingle.daemon.protocols.openai.completions.completions_api import CompletionsApi
from ingle.daemon.protocols.openai.completions.request_types import PlainCompletionRequest
from ingle.daemon.protocols.openai.completions.requests import completion_job
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ....conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]
ENDLESS = {"reply": "x" * 400, "step_seconds": 0.01}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "echo:1", "messages": HI, **fields}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


async def refusal(daemon: RunningDaemon, body: Any, path: str = CHAT) -> dict[str, Any]:
    """The error of a request that is refused with 400."""
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    return error


@pytest.mark.slow
async def test_whole_chat_completion(daemon: RunningDaemon) -> None:
    answer = (await daemon.tcp.post(CHAT, json=chat())).json()
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == "echo:1"
    assert answer["system_fingerprint"].startswith("fp_")
    (choice,) = answer["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": REPLY, "refusal": None, "annotations": []},
        "logprobs": None,
        "finish_reason": "stop",
    }
    usage = answer["usage"]
    assert usage["completion_tokens"] >= len(REPLY)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]
    none = dict.fromkeys(
        ("reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"), 0
    )
    assert usage["completion_tokens_details"] == none


@pytest.mark.slow
async def test_stream_has_openais_format(daemon: RunningDaemon) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    events = [data for _, data in await daemon.events("POST", CHAT, json=body)]
    *chunks, usage, done = events
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] >= len(REPLY)
    assert all(chunk["usage"] is None for chunk in chunks)
    first, *middle, last = chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in (first, *middle))
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == REPLY
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(c["id"], c["created"], c["model"], c["system_fingerprint"]) for c in chunks}) == 1


@pytest.mark.slow
async def test_stream_without_include_usage_has_no_usage(daemon: RunningDaemon) -> None:
    events = await daemon.events("POST", CHAT, json=chat(stream=True))
    assert all("usage" not in chunk for _, chunk in events[:-1])


@pytest.mark.slow
async def test_n_choices_have_their_own_index(daemon: RunningDaemon) -> None:
    whole = (await daemon.tcp.post(CHAT, json=chat(n=3))).json()
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    assert {choice["message"]["content"] for choice in whole["choices"]} == {REPLY}
    texts = ["", "", ""]
    for _, chunk in (await daemon.events("POST", CHAT, json=chat(n=3, stream=True)))[:-1]:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == [REPLY] * 3


async def test_max_tokens_and_stop_strings(daemon: RunningDaemon) -> None:
    body = chat(max_tokens=9, max_completion_tokens=5)
    (choice,) = (await daemon.tcp.post(CHAT, json=body)).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "length")
    (choice,) = (await daemon.tcp.post(CHAT, json=chat(stop="the"))).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello from ", "stop")


async def test_an_answer_ends_after_a_stop_token(daemon: RunningDaemon) -> None:
    tokens = (await daemon.tcp.post("/tokenize", json={"model": "echo:1", "content": "fz"})).json()
    stops = {"stop_token_ids": tokens["tokens"]}
    (choice,) = (await daemon.tcp.post(CHAT, json=chat(**stops))).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello f", "stop")
    body = {"model": "echo:1", "prompt": "Hi", **stops, "ignore_eos": True}
    (choice,) = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Hello f", "stop")
    error = await refusal(daemon, chat(stop_token_ids=[-1]))
    assert error["param"] == "stop_token_ids"


@pytest.mark.slow
async def test_fields_that_editors_send_are_accepted(daemon: RunningDaemon) -> None:
    body = chat(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 2, "name": "me"},
            {"role": "assistant", "content": None},
            {"role": "user", "content": "Hi\x00 \U0001f525"},
        ],
        tools=[],
        tool_choice="auto",
        response_format={"type": "text"},
        logprobs=False,
        top_logprobs=0,
        modalities=["text"],
        stop=None,
        n=None,
        store=False,
        metadata={"x": "y"},
        reasoning_effort="low",
        parallel_tool_calls=False,
        unknown={"deep": [1, {"a": None}]},
    )
    answer = await daemon.tcp.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text


WRONG_IN_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"top_k": 2**40}, "top_k"),
    ({"min_p": -1}, "min_p"),
    ({"n": 0}, "n"),
    ({"n": 17}, "n"),
    ({"n": 1.5}, "n"),
    ({"seed": 2**63}, "seed"),
    ({"seed": 10**400}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"max_tokens": -2}, "max_tokens"),
    ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
    ({"frequency_penalty": 2.5}, "frequency_penalty"),
    ({"presence_penalty": -2.5}, "presence_penalty"),
    ({"repeat_penalty": 0}, "repeat_penalty"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": [1]}, "stop[0]"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"99999999999": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias[...]"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"model": ""}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": "Hi"}, "messages"),
    ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "king", "content": "Hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [*HI, {"role": "user", "content": 5}]}, "messages[1].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
        "messages[0].tool_calls[0].function",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}]},
        "messages[0].tool_calls[0]",
    ),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"tools": [tool("")]}, "tools[0].function.name"),
    ({"tools": [tool("a b")]}, "tools[0].function.name"),
    ({"tools": [tool("x" * 257)]}, "tools[0].function.name"),
    ({"tools": [tool("f", parameters=[])]}, "tools[0].function.parameters"),
    ({"tools": [tool("f", parameters={"type": "string"})]}, "tools[0].function.parameters"),
    (
        {"tools": [tool("f", parameters={"properties": "x"})]},
        "tools[0].function.parameters.properties",
    ),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "required", "tools": [{"type": "web_search"}]}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"tool_choice": {"type": "function"}, "tools": [tool("f")]}, "tool_choice"),
    ({"tool_choice": {"function": {"name": "g"}}, "tools": [tool("f")]}, "tool_choice"),
    ({"functions": [{"name": ""}]}, "functions[0].name"),
    ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call"),
    ({"reasoning_effort": "enormous"}, "reasoning_effort"),
    ({"reasoning": "high"}, "reasoning"),
    ({"thinking_budget_tokens": -2}, "thinking_budget_tokens"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"a": 2**70}}, "chat_template_kwargs"),
    ({"continue_final_message": True}, "continue_final_message"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": ["a", ""]}}, "structured_outputs.choice[1]"),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
    ({"response_format": {"type": "json_object"}, "grammar": "start: /a/"}, "grammar"),
    ({"logprobs": 1}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"typical_p": 0}, "typical_p"),
    ({"top_n_sigma": 101}, "top_n_sigma"),
    ({"xtc_probability": 1.1}, "xtc_probability"),
    ({"xtc_threshold": -0.1}, "xtc_threshold"),
    ({"dynatemp_range": -1}, "dynatemp_range"),
    ({"dynatemp_exponent": 0}, "dynatemp_exponent"),
    ({"mirostat": 3}, "mirostat"),
    ({"mirostat_tau": -1}, "mirostat_tau"),
    ({"mirostat_eta": 1.5}, "mirostat_eta"),
    ({"repeat_last_n": -2}, "repeat_last_n"),
    ({"dry_multiplier": -1}, "dry_multiplier"),
    ({"dry_base": 0.5}, "dry_base"),
    ({"dry_allowed_length": -1}, "dry_allowed_length"),
    ({"dry_penalty_last_n": 2**31}, "dry_penalty_last_n"),
    ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers[0]"),
    ({"dry_sequence_breakers": ["x"] * 17}, "dry_sequence_breakers"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"web_search_options": {}}, "web_search_options"),
]


@pytest.mark.slow
async def test_invalid_chat_field_is_named(daemon: RunningDaemon) -> None:
    for fields, param in WRONG_IN_CHAT:
        error = await refusal(daemon, chat(**fields))
        assert error["param"] == param, fields
        assert param.split("[")[0] in error["message"]
        assert error["message"].endswith(".")
    # An invalid request loads no model.
    assert daemon.services.manager.loaded() == []


async def test_missing_field_is_named(daemon: RunningDaemon) -> None:
    error = await refusal(daemon, {"model": "echo:1"})
    assert (error["param"], error["message"]) == ("messages", "'messages' is missing.")
    error = await refusal(daemon, chat(tools=[{"function": {}}]))
    assert error["message"] == "'tools[0].function.name' is missing."
    assert (await refusal(daemon, {"model": "echo:1"}, "/v1/completions"))["param"] == "prompt"


@pytest.mark.slow
async def test_extreme_valid_values_are_accepted(daemon: RunningDaemon) -> None:
    allowed: list[dict[str, Any]] = [
        {"temperature": 0, "top_p": 1, "seed": -(2**63)},
        {"temperature": 2, "seed": 2**63 - 1, "n": 2, "min_p": 0, "top_k": -1},
        {"logit_bias": {"0": -100, "255": 100.0}, "frequency_penalty": -2, "max_tokens": 2**70},
        {"max_tokens": None, "max_completion_tokens": -1, "tools": [], "tool_choice": "auto"},
        {"messages": [{"role": "tool", "content": "4"}], "tools": [{"type": "web_search"}]},
        {"functions": [], "function_call": "none", "reasoning_effort": None, "modalities": []},
    ]
    for fields in allowed:
        answer = await daemon.tcp.post(CHAT, json=chat(**fields))
        assert answer.status_code == 200, answer.text


async def test_prompt_beyond_the_context_is_refused(daemon: RunningDaemon) -> None:
    long = "x" * 600
    error = await refusal(daemon, chat(messages=[{"role": "user", "content": long}]))
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "messages"
    # LiteLLM and others recognise the error by these words.
    assert "maximum context length is 512 tokens" in error["message"]
    # The model was trained for no more.
    assert "larger" not in error["message"]
    # Also for a stream, since its headers wait for the first event.
    error = await refusal(daemon, chat(messages=[{"role": "user", "content": long}], stream=True))
    assert error["code"] == "context_length_exceeded"
    error = await refusal(daemon, {"model": "echo:1", "prompt": long}, "/v1/completions")
    assert error["param"] == "prompt"


async def test_unknown_model_is_404_with_a_hint(daemon: RunningDaemon) -> None:
    for name in ("smollm2", "nope", "/etc/none.gguf", "../../x", "hf.co/a/b:Q4_0", "\x00"):
        for stream in (False, True):
            answer = await daemon.tcp.post(CHAT, json=chat(model=name, stream=stream))
            assert answer.status_code == 404, name
            error = answer.json()["error"]
            assert (error["code"], error["param"]) == ("model_not_found", "model")
    answer = await daemon.tcp.post(CHAT, json=chat(model="smollm2"))
    assert "ingle pull smollm2" in answer.json()["error"]["message"]


async def test_sampling_defaults_come_from_the_model(
    run_daemon: DaemonFactory, spy_on_requests: Callable[..., Any]
) -> None:
    seen, create = spy_on_requests()
    own = {"temperature": 0.2, "top_k": 7.0}
    async with run_daemon(sampling=own, create_backend=create) as daemon:
        await daemon.tcp.post(CHAT, json=chat())
        await daemon.tcp.post(CHAT, json=chat(temperature=0, min_p=0.5))
    assert (seen[0].sampling.temperature, seen[0].sampling.top_k) == (0.2, 7)
    assert (seen[0].sampling.top_p, seen[0].sampling.min_p) == (0.95, 0.05)
    assert (seen[1].sampling.temperature, seen[1].sampling.top_k) == (0, 7)
    assert (seen[1].sampling.top_p, seen[1].sampling.min_p) == (0.95, 0.5)


async def test_completion_with_echo_and_several_prompts(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "prompt": ["a", "bb"], "n": 2, "echo": True, "max_tokens": 5}
    answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
    assert answer["object"] == "text_completion"
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in answer["choices"]] == ["aHello"] * 2 + ["bbHello"] * 2
    assert answer["usage"]["completion_tokens"] == 20
    texts = [""] * 4
    events = await daemon.events("POST", "/v1/completions", json={**body, "stream": True})
    assert events[-1][1] == "[DONE]"
    for _, chunk in events[:-1]:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["aHello"] * 2 + ["bbHello"] * 2


async def test_echo_with_logprobs_scores_the_prompt(daemon: RunningDaemon) -> None:
    """As evaluation harnesses ask for it: the likelihood of a text, one token beyond it."""
    body = {
        "model": "echo:1",
        "prompt": [list(b"What is"), list("né".encode())],
        "echo": True,
        "logprobs": 1,
        "max_tokens": 1,
        "temperature": 0,
    }
    answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
    first, second = answer["choices"]
    assert (first["text"], second["text"]) == ("What isH", "néH")
    logprobs = first["logprobs"]
    assert "".join(logprobs["tokens"]) == "What isH"
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
    assert all(len(tokens) == 1 for tokens in logprobs["top_logprobs"][1:])
    assert logprobs["text_offset"] == list(range(8))
    assert answer["usage"]["prompt_tokens"] == 7 + 3
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("reply", "more"),
    [
        (REPLY, {}),
        (REPLY, {"logprobs": True}),
        ('{"a": 1}', {"response_format": {"type": "json_object"}}),
        ('{"name": "f", "arguments": {}}', {"tools": [tool("f")], "tool_choice": "required"}),
    ],
)
async def test_prompt_logprobs_score_the_prompt_of_a_chat(
    run_daemon: DaemonFactory, reply: str, more: dict[str, Any]
) -> None:
    async with run_daemon(script={"reply": reply}) as daemon:
        # A byte is a token here, and a tool takes many.
        await daemon.tcp.post("/ingle/v1/load", json={"model": "echo:1", "context": 4096})
        body = chat(prompt_logprobs=2, **more)
        answer = (await daemon.tcp.post(CHAT, json=body)).json()
        plain = chat(**more)
        expected = (await daemon.tcp.post(CHAT, json=plain)).json()
        rendered = (await daemon.tcp.post("/apply-template", json=plain)).json()["prompt"]
    first, *scores = answer["prompt_logprobs"]
    assert first is None
    assert len(scores) + 1 == answer["usage"]["prompt_tokens"]
    own = [next(iter(score.values())) for score in scores]
    assert "".join(token["decoded_token"] for token in own) == rendered
    for score, token in zip(scores, own, strict=True):
        assert 1 <= len(score) <= 3
        ranked = [other for other in score.values() if other["rank"] is not None]
        assert [other["rank"] for other in ranked] == list(range(1, len(ranked) + 1))
        assert token["logprob"] <= ranked[0]["logprob"]
    assert "prompt_logprobs" not in expected
    (choice,), (usual,) = answer["choices"], expected["choices"]
    assert choice["message"]["content"] == usual["message"]["content"]
    assert ("tool_calls" in choice["message"]) is ("tools" in more)
    assert (choice["logprobs"], choice["finish_reason"]) == (
        usual["logprobs"],
        usual["finish_reason"],
    )


async def test_prompt_logprobs_of_plain_prompts_are_those_of_echo(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "prompt": ["What", "né"], "prompt_logprobs": 3, "max_tokens": 1}
    plain = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"]
    echo = body | {"echo": True, "logprobs": 1}
    echoed = (await daemon.tcp.post("/v1/completions", json=echo)).json()["choices"]
    assert [choice["text"] for choice in plain] == ["H", "H"]
    assert [choice["logprobs"] for choice in plain] == [None, None]
    for choice, other in zip(plain, echoed, strict=True):
        assert choice["prompt_logprobs"] == other["prompt_logprobs"]
        own = [next(iter(score.values())) for score in choice["prompt_logprobs"][1:]]
        scored = other["logprobs"]["token_logprobs"][1 : len(own) + 1]
        assert [token["logprob"] for token in own] == scored
        assert all(len(top) <= 2 for top in other["logprobs"]["top_logprobs"][1:])


@pytest.mark.parametrize("fields", [{"stream": True}, {"n": 2}, {"prompt_logprobs": 21}])
async def test_prompt_logprobs_are_for_one_whole_answer(
    daemon: RunningDaemon, fields: dict[str, Any]
) -> None:
    body = chat(**{"prompt_logprobs": 1, **fields})
    assert (await refusal(daemon, body))["param"] == "prompt_logprobs"
    plain = {"model": "echo:1", "prompt": "a", "prompt_logprobs": 1, **fields}
    assert (await refusal(daemon, plain, "/v1/completions"))["param"] == "prompt_logprobs"


async def test_echo_alone_has_no_scores(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "prompt": list(b"Hi"), "echo": True, "max_tokens": 2}
    (choice,) = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"]
    assert choice["text"] == "HiHe"
    assert choice["logprobs"] is None


async def test_best_of_returns_the_best_answers(
    run_daemon: DaemonFactory, event_backend: Callable[..., Any]
) -> None:
    events: list[Event] = [Started("", 3)]
    for index, (text, logprob) in enumerate((("bad", -9.0), ("best", -0.1), ("good", -1.0))):
        scores = [TokenLogprobs(7, logprob)]
        events.append(Delta("", index, text, [7], scores, {7: text.encode()}))
        events.append(Finished("", index, FinishReason.STOP, 1))
    backend = event_backend(*events)
    async with run_daemon(create_backend=backend) as daemon:
        body = {"model": "echo:1", "prompt": ["a", "b"], "n": 2, "best_of": 3}
        answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
        choices = [
            (choice["index"], choice["text"], choice["logprobs"]) for choice in answer["choices"]
        ]
        assert choices == [
            (0, "best", None),
            (1, "good", None),
            (2, "best", None),
            (3, "good", None),
        ]
        assert answer["usage"]["completion_tokens"] == 6
        body |= {"logprobs": 1}
        answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
        assert answer["choices"][0]["logprobs"]["token_logprobs"] == [-0.1]
    assert [request.n for request in backend.requests] == [3, 3, 3, 3]


@pytest.mark.slow
async def test_suffix_makes_an_infill_request(
    run_daemon: DaemonFactory, event_backend: Callable[..., Any]
) -> None:
    scripted_events = (
        Started("", 3),
        Delta("", 0, "ll", [1]),
        Finished("", 0, FinishReason.STOP, 1),
    )
    backend = event_backend(*scripted_events)
    async with run_daemon(create_backend=backend) as daemon:
        body = {"model": "echo:1", "prompt": "He", "suffix": "o", "echo": True}
        answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
        assert answer["choices"][0]["text"] == "Hell"
        events = await daemon.events("POST", "/v1/completions", json=body | {"stream": True})
        assert [chunk["choices"][0]["text"] for _, chunk in events[:-1]] == ["He", "ll", ""]
        await daemon.tcp.post("/v1/completions", json=body | {"suffix": ""})
    with_suffix, _, plain = backend.requests
    assert (with_suffix.infill, with_suffix.prompt) == (Infill("He", "o"), None)
    assert (plain.infill, plain.prompt) == (None, "He")


@pytest.mark.slow
async def test_completion_of_token_ids(daemon: RunningDaemon) -> None:
    for prompt, count in (([72, 105], 1), ([[72], [105]], 2)):
        body = {"model": "echo:1", "prompt": prompt, "max_tokens": 5}
        answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
        assert [choice["text"] for choice in answer["choices"]] == ["Hello"] * count


WRONG_IN_COMPLETION: list[tuple[dict[str, Any], str]] = [
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": [[1], "a"]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [2**40]}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [1.5]}, "prompt[0]"),
    ({"prompt": ["a"] * 65}, "prompt"),
    ({"prompt": {}}, "prompt"),
    ({"prompt": [1], "echo": True, "stream": True}, "echo"),
    ({"logprobs": 0, "echo": True, "n": 2}, "echo"),
    ({"prompt": [1], "suffix": "end"}, "suffix"),
    ({"suffix": 1}, "suffix"),
    ({"logprobs": 21}, "logprobs"),
    ({"best_of": 3, "stream": True}, "best_of"),
    ({"best_of": 17}, "best_of"),
    ({"n": 2, "best_of": 1}, "best_of"),
]


@pytest.mark.slow
async def test_invalid_completion_field_is_named(daemon: RunningDaemon) -> None:
    for fields, param in WRONG_IN_COMPLETION:
        body = {"model": "echo:1", "prompt": "Hi", **fields}
        assert (await refusal(daemon, body, "/v1/completions"))["param"] == param, fields


async def test_disconnected_client_frees_its_slot(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=ENDLESS) as daemon:
        stream = daemon.stream("POST", CHAT, json=chat(stream=True))
        await anext(stream)
        assert daemon.leases == 1
        await stream.aclose()
        await daemon.until(lambda: daemon.leases == 0)
        waiting = asyncio.create_task(daemon.tcp.post(CHAT, json=chat(n=2)))
        await daemon.until(lambda: daemon.leases == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await daemon.until(lambda: daemon.leases == 0)
        # The engine has dropped the sequences as well.
        await daemon.until(lambda: daemon.services.manager.loaded()[0].running == 0)


async def test_pipelined_request_does_not_hide_a_disconnect(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script=ENDLESS) as daemon:
        _, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        body = json.dumps(chat()).encode()
        head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        writer.write((head % (CHAT.encode(), len(body)) + body) * 2)
        await daemon.until(lambda: daemon.leases == 1)
        writer.close()
        await daemon.until(lambda: daemon.leases == 0)


@pytest.mark.slow
async def test_worker_death_in_a_stream_is_one_error_event(
    run_daemon: DaemonFactory,
) -> None:
    specs: list[LoadSpec] = []

    def create(spec: LoadSpec) -> WorkerProcess:
        specs.append(spec)
        return WorkerProcess(spec)

    async with run_daemon(script={"die_at": 6}, create_backend=create) as daemon:
        events = await daemon.events("POST", CHAT, json=chat(stream=True))
        _, error = events[-1]
        assert error["error"]["code"] == "worker_died"
        assert error["error"]["type"] == "server_error"
        texts = [chunk["choices"][0]["delta"].get("content", "") for _, chunk in events[:-1]]
        assert REPLY.startswith("".join(texts))
        assert "".join(texts)
        answer = await daemon.tcp.post(CHAT, json=chat(max_tokens=5))
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"
        assert len(specs) == 2
        # Without streaming, a worker death is an HTTP status.
        answer = await daemon.tcp.post(CHAT, json=chat())
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "worker_died"


async def test_load_error_is_reported(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"load_error": "The file is damaged."}) as daemon:
        for stream in (False, True):
            answer = await daemon.tcp.post(CHAT, json=chat(stream=stream))
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "load_failed"
            assert "damaged" in answer.json()["error"]["message"]
        assert (await daemon.tcp.get("/health")).status_code == 200


@pytest.fixture
def spy_on_requests() -> Callable[[], tuple[list[Any], Callable[[LoadSpec], LocalBackend]]]:
    """A list of all requests that reach a backend, and a factory of such backends."""

    def make() -> tuple[list[Any], Callable[[LoadSpec], LocalBackend]]:
        seen: list[Any] = []

        class Spy(LocalBackend):
            async def run(self, request: Any, sink: Any) -> None:
                seen.append(request)
                await super().run(request, sink)

        return seen, Spy

    return make


async def test_usage_counts_draft_tokens(run_daemon: DaemonFactory) -> None:
    def create(spec: LoadSpec) -> LocalBackend:
        return LocalBackend(msgspec.structs.replace(spec, speculation="ngram"))

    reply = "abc" * 40 + "the end" + "abc" * 40
    async with run_daemon(script={"reply": reply}, create_backend=create) as daemon:
        answer = (await daemon.tcp.post(CHAT, json=chat())).json()
        assert answer["choices"][0]["message"]["content"] == reply
        details = answer["usage"]["completion_tokens_details"]
        assert 50 < details["accepted_prediction_tokens"] < answer["usage"]["completion_tokens"]
        assert details["rejected_prediction_tokens"] > 0
        (model,) = (await daemon.unix.get("/ingle/v1/status")).json()["models"]
        assert (model["speculation"], model["draft"]) == ("ngram", None)


@pytest.mark.parametrize(("ingle", "expected"), [({}, True), ({"speculation": False}, False)])
def test_request_may_disable_speculative_decoding(ingle: dict[str, bool], expected: bool) -> None:
    body = {"model": "echo:1", "prompt": "Hi", "ingle": ingle}
    job = completion_job(msgspec.convert(body, PlainCompletionRequest), RequestOrigin())
    (request,) = job.requests({})
    assert request.speculation is expected


async def test_bodies_are_answered_without_http(daemon: RunningDaemon) -> None:
    api, origin = (
        CompletionsApi(daemon.services),
        RequestOrigin(client="batch", priority=Priority.BATCH),
    )
    whole = await api.answer_chat(msgspec.json.encode(chat(stream=True)), origin)
    assert whole.choices[0].message.content == "Hello from the scripted model."
    body = {"model": "echo:1", "prompt": ["a", "b"], "max_tokens": 5, "echo": True}
    plain = await api.answer_completion(msgspec.json.encode(body), origin)
    assert [choice.text for choice in plain.choices] == ["aHello", "bHello"]
    with pytest.raises(InvalidBody, match="messages"):
        await api.answer_chat(b'{"model": "echo:1"}', origin)


@pytest.mark.slow
async def test_logit_bias_size_is_limited(daemon: RunningDaemon) -> None:
    error = await refusal(daemon, chat(logit_bias={str(token): 1 for token in range(2**16 + 1)}))
    assert error["param"] == "logit_bias"
