"""litellm: a streamed answer and a tool call, over three protocols."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

litellm: Any = import_module("litellm")
BASE_URL = os.environ["BASE_URL"]
PROVIDERS = {"openai": f"{BASE_URL}/v1", "anthropic": BASE_URL, "ollama_chat": BASE_URL}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def ask(provider: str, model: str, messages: list[Any], **more: Any) -> Any:
    """One request through a provider of litellm."""
    return litellm.completion(
        model=f"{provider}/{model}",
        messages=messages,
        api_base=PROVIDERS[provider],
        api_key="none",
        num_retries=0,
        **more,
    )


def streams(provider: str) -> dict[str, object]:
    """A real model's answer and its number of pieces."""
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    stream = ask(provider, os.environ["REAL_MODEL"], messages, stream=True, max_tokens=64)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    return {"answer": "".join(pieces), "pieces": len(pieces)}


def calls_a_tool(provider: str) -> dict[str, object]:
    """A scripted model's answer after the result of its tool call."""
    model = os.environ["SCRIPTED_MODEL"]
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Ghent?"}]
    chunks = list(ask(provider, model, messages, tools=[TOOL], stream=True))
    first = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
    (call,) = first.tool_calls
    found = json.loads(call.function.arguments) == {"city": "Ghent"}
    result = os.environ["RESULT"] if found else "unknown"
    messages.append(first.model_dump())
    messages.append({"role": "tool", "tool_call_id": call.id, "name": "weather", "content": result})
    answer = ask(provider, model, messages, tools=[TOOL])
    return {"called": answer.choices[0].message.content}


if __name__ == "__main__":
    part = {"streams": streams, "callsATool": calls_a_tool}[sys.argv[1]]
    print(json.dumps(part(sys.argv[2])))
