"""Fuzz tests: malformed bodies get errors in OpenAI's shape and never crash the daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

FUNCTION = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
CUSTOM = {"type": "custom", "name": "edit", "format": {"type": "grammar", "syntax": "lark"}}
ITEMS: dict[str, Any] = {
    "model": "echo:1",
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "aW5nbGUxOkhtLg=="},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "c2", "output": "x"},
    ],
    "max_output_tokens": 2,
    "temperature": 0.5,
    "top_p": 0.9,
    "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
    "top_logprobs": 2,
    "metadata": {"a": "b"},
    "truncation": "disabled",
    "store": True,
    "user": "me",
}
TOOLS: dict[str, Any] = {
    "model": "echo:1",
    "input": "Hi",
    "instructions": "Be brief.",
    "max_output_tokens": 2,
    "tools": [FUNCTION, CUSTOM, {"type": "namespace", "name": "n", "tools": [FUNCTION]}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "previous_response_id": None,
    "service_tier": "auto",
    "client_metadata": {"a": 1},
    "stream": True,
}
BACKGROUND: dict[str, Any] = {
    "model": "echo:1",
    "input": [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "msg_1"}],
    "max_output_tokens": 2,
    "truncation": "auto",
    "background": True,
    "ingle": {"priority": "batch", "client": "me"},
}


def is_openai_error(body: Any) -> None:
    (error,) = body.values()
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["message"]


@pytest.mark.slow
async def test_malformed_responses_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    examples = [ITEMS, TOOLS, BACKGROUND]
    statuses = await fuzz_endpoint(daemon, "/v1/responses", examples, is_openai_error)
    assert statuses.total() == 1000
    assert statuses[400] > 300, statuses
    assert statuses[200] > 0, statuses


@pytest.mark.slow
@pytest.mark.parametrize("path", ["input_tokens", "compact"])
async def test_malformed_input_tokens_and_compact_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint, path: str
) -> None:
    await fuzz_endpoint(daemon, f"/v1/responses/{path}", [ITEMS, TOOLS], is_openai_error, count=150)


@pytest.mark.slow
async def test_nested_json_of_any_depth(daemon: RunningDaemon) -> None:
    """No depth between what is parsed and what is refused breaks another layer."""
    for depth in (*range(50, 1000, 50), *range(900, 1000, 7)):
        deep = '{"a":' * depth + "1" + "}" * depth
        call = f'{{"type":"local_shell_call","call_id":"c","action":{deep}}}'
        bodies = [
            f'"input":[{{"role":"user","content":"Hi"}},{call}]',
            f'"input":"Hi","tools":[{{"type":"function","name":"f","parameters":{deep}}}]',
            f'"input":"Hi","tools":[{{"type":"mcp","headers":{deep}}}]',
            f'"input":"Hi","text":{{"format":{{"type":"json_schema","schema":{deep}}}}}',
            f'"input":"Hi","client_metadata":{deep}',
        ]
        for body in bodies:
            content = f'{{"model":"echo:1","max_output_tokens":1,{body}}}'
            answer = await daemon.unix.post("/v1/responses", content=content.encode())
            assert answer.status_code in (200, 400), (depth, body[:60], answer.text)
