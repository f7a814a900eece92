"""Fuzz tests: malformed bodies get errors in Anthropic's shape and never crash the daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

TEXT = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EXCHANGE: dict[str, Any] = {
    "model": "echo:1",
    "max_tokens": 2,
    "system": [TEXT],
    "messages": [
        {"role": "user", "content": [TEXT]},
        {"role": "system", "content": "Be brief."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                TEXT,
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [TEXT, {"type": "tool_reference", "tool_name": "x"}],
                    "is_error": True,
                },
                {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
                {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]},
            ],
        },
    ],
    "tools": [
        {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA, "strict": False},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
    "metadata": {"user_id": "me"},
    "stop_sequences": ["\n"],
    "temperature": 1.0,
    "top_p": 0.9,
    "top_k": 5,
    "stream": False,
    "service_tier": "auto",
}
PLAIN: dict[str, Any] = {
    "model": "echo:1",
    "max_tokens": 2,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}],
    "stream": True,
    "output_config": {"effort": "low"},
    "ingle": {"priority": "batch", "client": "me"},
}
FORM: dict[str, Any] = {
    "model": "echo:1",
    "max_tokens": 2,
    "messages": [{"role": "user", "content": "Hi"}],
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "stream": True,
}


def is_anthropic_error(body: Any) -> None:
    assert set(body) == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert set(body["error"]) == {"type", "message"}
    assert body["error"]["type"] in ("invalid_request_error", "not_found_error")
    assert body["error"]["message"]


@pytest.mark.slow
async def test_malformed_messages_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    examples = [EXCHANGE, PLAIN, FORM]
    statuses = await fuzz_endpoint(daemon, "/v1/messages", examples, is_anthropic_error)
    assert statuses.total() == 1000
    assert statuses[400] > 400, statuses
    assert statuses[200] > 0, statuses


async def test_malformed_count_tokens_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    statuses = await fuzz_endpoint(
        daemon, "/v1/messages/count_tokens", [EXCHANGE, PLAIN], is_anthropic_error, count=100
    )
    assert statuses[200] > 0, statuses
