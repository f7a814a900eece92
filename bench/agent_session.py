"""A session of a coding agent: long instructions and tools, then a short question."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent.parent / "docs"
_AGENT = {"User-Agent": "bench-agent/1.0", "Content-Type": "application/json"}
_TOOL_CHARACTERS = 1200
_TOOL_SHARE = 0.4
"""Of the characters before the conversation, as in Claude Code's requests."""

Json = dict[str, Any]


@dataclass(frozen=True)
class AgentPrompt:
    """What precedes the conversation; English text, about four characters a token."""

    instructions: str
    tools: list[Json]

    @classmethod
    def of(cls, characters: int) -> AgentPrompt:
        """Instructions and tools of so many characters, from this project's documentation."""
        text = "\n\n".join(path.read_text() for path in sorted(_DOCS.glob("*.md")))
        count = max(1, int(characters * _TOOL_SHARE) // _TOOL_CHARACTERS)
        start = characters - count * _TOOL_CHARACTERS
        parts = [text[start + n * _TOOL_CHARACTERS :][:_TOOL_CHARACTERS] for n in range(count)]
        return cls(text[:start], [_tool(number, part) for number, part in enumerate(parts)])


def _tool(number: int, text: str) -> Json:
    path = {"type": "string", "description": "A path below the working directory."}
    schema: Json = {"type": "object", "properties": {"path": path}, "required": ["path"]}
    return {"name": f"tool_{number}", "description": text, "parameters": schema}


@dataclass(frozen=True)
class Turn:
    """One answered request; seconds from when it was sent."""

    first_token: float
    seconds: float
    prompt_tokens: int
    cached_tokens: int


def body_of(protocol: str, prompt: AgentPrompt, model: str, said: str, tokens: int) -> Json:
    """Return the body of a streamed request of a new session."""
    asked = {"role": "user", "content": said}
    system = {"role": "system", "content": prompt.instructions}
    functions = [{"type": "function", "function": tool} for tool in prompt.tools]
    common: Json = {"model": model, "stream": True}
    match protocol:
        case "messages":
            tools = [{**t, "input_schema": t["parameters"]} for t in prompt.tools]
            tools = [{k: v for k, v in t.items() if k != "parameters"} for t in tools]
            said_so = {"system": prompt.instructions, "messages": [asked]}
            return {**common, **said_so, "tools": tools, "max_tokens": tokens, "temperature": 0}
        case "responses":
            flat = [{"type": "function", **tool} for tool in prompt.tools]
            said_so = {"instructions": prompt.instructions, "input": [asked], "store": False}
            return {
                **common,
                **said_so,
                "tools": flat,
                "max_output_tokens": tokens,
                "temperature": 0,
            }
        case "ollama":
            options = {"num_predict": tokens, "temperature": 0}
            return {**common, "messages": [system, asked], "tools": functions, "options": options}
        case _:
            usage = {"include_usage": True}
            return {
                **common,
                "messages": [system, asked],
                "tools": functions,
                "max_tokens": tokens,
                "temperature": 0,
                "stream_options": usage,
            }


PATHS = {
    "chat completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "ollama": "/api/chat",
}
"""The path of each protocol's chat."""


def send(port: int, protocol: str, body: Json) -> Turn:
    """Send a request and read its stream; raises `RuntimeError` unless it is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1800)
    began = time.perf_counter()
    first = 0.0
    usage: list[tuple[int, int]] = []
    try:
        connection.request("POST", PATHS[protocol], json.dumps(body).encode(), _AGENT)
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{protocol}: {response.status}: {response.read()[:500]!r}")
        for line in response:
            text = line.removeprefix(b"data: ").strip()
            if not text.startswith(b"{"):
                continue
            event = json.loads(text)
            if event.get("error"):
                raise RuntimeError(f"{protocol}: {text[:500]!r}")
            if not first and _says_something(protocol, event):
                first = time.perf_counter() - began
            if (found := _usage(protocol, event)) is not None:
                usage.append(found)
    finally:
        connection.close()
    if not usage or not first:
        raise RuntimeError(f"{protocol}: the stream has no answer or no usage")
    return Turn(round(first, 3), round(time.perf_counter() - began, 3), *usage[-1])


def _says_something(protocol: str, event: Json) -> bool:
    kind = str(event.get("type", ""))
    match protocol:
        case "messages":
            return kind == "content_block_delta"
        case "responses":
            return kind.endswith(".delta")
        case "ollama":
            message: Json = event.get("message") or {}
            return bool(message.get("content") or message.get("tool_calls"))
        case _:
            delta: Json = event["choices"][0]["delta"] if event.get("choices") else {}
            return bool(delta.get("content") or delta.get("tool_calls"))


def _usage(protocol: str, event: Json) -> tuple[int, int] | None:
    """Return the tokens of the prompt and those that were cached, if the event has them."""
    match protocol:
        case "messages":
            if event.get("type") != "message_delta":
                return None
            cached = event["usage"]["cache_read_input_tokens"]
            return event["usage"]["input_tokens"] + cached, cached
        case "responses":
            response: Json = event.get("response") or {}
            if not (usage := response.get("usage")):
                return None
            return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
        case "ollama":
            if not event.get("done"):
                return None
            return event["prompt_eval_count"], event.get("prompt_eval_cached_count", 0)
        case _:
            if not (usage := event.get("usage")):
                return None
            return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
