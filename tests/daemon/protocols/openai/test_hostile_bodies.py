"""Fuzz tests: malformed bodies get errors in OpenAI's shape and never crash the daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CHAT: dict[str, Any] = {
    "model": "echo:1",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi", "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ],
    "max_completion_tokens": 2,
    "temperature": 0.5,
    "top_p": 0.9,
    "n": 1,
    "stop": ["\n"],
    "seed": 1,
    "logit_bias": {"1": 2},
    "logprobs": True,
    "top_logprobs": 2,
    "stream": False,
    "stream_options": {"include_usage": True},
    "user": "me",
}
TOOLS: dict[str, Any] = {
    "model": "echo:1",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 2,
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "reasoning": {"effort": "low", "max_tokens": 5},
    "response_format": {"type": "text"},
    "functions": [TOOL["function"]],
    "function_call": {"name": "weather"},
    "chat_template_kwargs": {"enable_thinking": False},
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "stream": True,
}
PLAIN: dict[str, Any] = {
    "model": "echo:1",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_object"},
}
COMPLETION: dict[str, Any] = {
    "model": "echo:1",
    "prompt": ["a", "b"],
    "suffix": None,
    "max_tokens": 2,
    "echo": True,
    "best_of": 2,
    "n": 1,
    "stop": "x",
    "logit_bias": {"5": -1},
    "stream": False,
    "ingle": {"priority": "batch", "client": "me"},
}


def is_openai_error(body: Any) -> None:
    (error,) = body.values()
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["message"]


@pytest.mark.slow
async def test_malformed_chat_requests(daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint) -> None:
    statuses = await fuzz_endpoint(
        daemon, "/v1/chat/completions", [CHAT, TOOLS, PLAIN], is_openai_error
    )
    assert statuses.total() == 1000
    assert statuses[400] > 400, statuses
    assert statuses[200] > 0, statuses


@pytest.mark.slow
async def test_malformed_completion_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    tokens = COMPLETION | {"prompt": [1, 2, 3], "echo": False, "logprobs": 1, "best_of": None}
    statuses = await fuzz_endpoint(daemon, "/v1/completions", [COMPLETION, tokens], is_openai_error)
    assert statuses.total() == 1000
    assert statuses[400] > 400, statuses
    assert statuses[200] > 0, statuses


async def test_malformed_embedding_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    body = {"model": "echo:1", "input": ["a", "b"], "encoding_format": "float", "dimensions": 4}
    await fuzz_endpoint(daemon, "/v1/embeddings", [body], is_openai_error, count=100)
