"""Fuzz tests: malformed bodies get errors in Ollama's shape and never crash the daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
OPTIONS: dict[str, Any] = {
    "num_predict": 2,
    "num_ctx": 256,
    "num_keep": 4,
    "num_gpu": -1,
    "use_mmap": True,
    "temperature": 0.5,
    "top_k": 5,
    "top_p": 0.9,
    "min_p": 0.1,
    "typical_p": 1,
    "seed": 3,
    "stop": ["\n"],
    "repeat_penalty": 1.1,
    "repeat_last_n": -1,
    "mirostat": 0,
}
CHAT: dict[str, Any] = {
    "model": "echo:1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "images": []},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [CALL]},
        {"role": "tool", "tool_name": "weather", "tool_call_id": "c1", "content": "sunny"},
    ],
    "options": OPTIONS,
    "keep_alive": "5m",
    "think": False,
    "logprobs": True,
    "top_logprobs": 2,
    "truncate": True,
    "stream": False,
}
TOOLS: dict[str, Any] = {
    "model": "echo:1",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "weather", "description": "?", "parameters": PARAMETERS},
        }
    ],
    "options": {"num_predict": 2},
}
GENERATE: dict[str, Any] = {
    "model": "echo:1",
    "prompt": "Hi",
    "system": "Be brief.",
    "context": [1, 2, 3],
    "options": OPTIONS,
    "keep_alive": 300,
    "stream": True,
}
RAW: dict[str, Any] = {
    "model": "echo:1",
    "prompt": "Hi",
    "raw": True,
    "format": "",
    "options": {"num_predict": 2},
    "stream": False,
}


def is_ollama_error(body: Any) -> None:
    assert set(body) == {"error"}
    assert body["error"]
    assert isinstance(body["error"], str)


@pytest.mark.slow
async def test_malformed_chat_requests(daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint) -> None:
    statuses = await fuzz_endpoint(daemon, "/api/chat", [CHAT, TOOLS], is_ollama_error)
    assert statuses.total() == 1000
    assert statuses[400] > 300, statuses
    assert statuses[200] > 0, statuses


@pytest.mark.slow
async def test_malformed_generate_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    statuses = await fuzz_endpoint(daemon, "/api/generate", [GENERATE, RAW], is_ollama_error)
    assert statuses.total() == 1000
    assert statuses[400] > 300, statuses
    assert statuses[200] > 0, statuses


@pytest.mark.slow
async def test_malformed_library_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    create = {
        "model": "mine",
        "from": "echo:1",
        "system": "x",
        "parameters": OPTIONS,
        "messages": [{"role": "user", "content": "Hi"}],
        "license": ["MIT"],
        "files": {"model.gguf": "sha256:" + "0" * 64},
        "stream": False,
    }
    for path, body in {
        "/api/show": {"model": "echo:1", "verbose": True},
        "/api/copy": {"source": "echo:1", "destination": "copy"},
        "/api/create": create,
        "/api/pull": {"model": "echo:1", "stream": False},
        "/api/push": {"model": "echo:1", "stream": False},
        "/api/embed": {"model": "echo:1", "input": ["a"], "dimensions": 4, "options": OPTIONS},
        "/api/embeddings": {"model": "echo:1", "prompt": "a", "keep_alive": "1m"},
    }.items():
        await fuzz_endpoint(daemon, path, [body], is_ollama_error, count=150)
