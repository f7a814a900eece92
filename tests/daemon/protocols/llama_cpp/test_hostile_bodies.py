"""Fuzz tests: malformed bodies get errors in llama-server's shape and never crash the daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

SAMPLING: dict[str, Any] = {
    "temperature": 0.5,
    "dynatemp_range": 0.1,
    "top_k": 40,
    "top_p": 0.9,
    "min_p": 0.1,
    "typical_p": 1.0,
    "xtc_probability": 0.0,
    "mirostat": 0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.1,
    "dry_multiplier": 0.0,
    "dry_sequence_breakers": ["\n"],
    "seed": 4,
    "logit_bias": [[1, -1.0], [2, False]],
    "samplers": ["top_k", "top_p", "infill"],
}
COMPLETION: dict[str, Any] = {
    "prompt": ["Hi", [1, "b"]],
    "model": "echo:1",
    "n_predict": 2,
    "n_probs": 1,
    "n_indent": 2,
    "stop": ["x"],
    "stream": False,
    "cache_prompt": True,
    "id_slot": 0,
    "response_fields": ["content", "timings/prompt_n"],
    "t_max_predict_ms": 1000,
    "return_tokens": True,
    **SAMPLING,
}
STREAM = COMPLETION | {
    "prompt": "Hi",
    "stream": True,
    "return_progress": True,
    "timings_per_token": True,
}
INFILL: dict[str, Any] = {
    "input_prefix": "def f(",
    "input_suffix": ")",
    "input_extra": [{"filename": "a.py", "time": 1, "text": "x = 1"}],
    "prompt": "a",
    "n_predict": 2,
    "n_cmpl": 1,
    "t_max_prompt_ms": 500,
    "response_fields": [""],
    **SAMPLING,
}
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("/tokenize", {"content": ["a", 1], "add_special": True, "with_pieces": True, "model": None}),
    ("/detokenize", {"tokens": [97, 98]}),
    ("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/embedding", {"content": ["a", [1]], "model": "echo:1"}),
    ("/rerank", {"query": "x", "texts": ["a", "b"], "return_text": True, "top_n": 1}),
]


def is_llama_cpp_error(body: Any) -> None:
    (error,) = body.values()
    assert {"code", "message", "type"} <= set(error)
    assert 400 <= error["code"] < 500
    assert error["message"]


@pytest.mark.slow
async def test_malformed_completion_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    statuses = await fuzz_endpoint(daemon, "/completion", [COMPLETION, STREAM], is_llama_cpp_error)
    assert statuses.total() == 1000
    assert statuses[400] > 200, statuses
    assert statuses[200] > 0, statuses


async def test_malformed_infill_requests(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint
) -> None:
    statuses = await fuzz_endpoint(daemon, "/infill", [INFILL], is_llama_cpp_error, count=100)
    assert statuses[200] > 0, statuses


@pytest.mark.parametrize(("path", "example"), OTHERS)
async def test_malformed_requests_to_other_endpoints(
    daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint, path: str, example: dict[str, Any]
) -> None:
    await fuzz_endpoint(
        daemon,
        path,
        [example],
        is_llama_cpp_error,
        count=80,
        may_be_empty=path in ("/tokenize", "/detokenize"),
    )
