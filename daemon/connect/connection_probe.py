"""Tests connections with the requests that programs make over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from .connect_target import ConnectTarget

_SECONDS = 600.0
"""Includes loading a model on a slow machine."""
_FEW_TOKENS = 24
_CALL_TOKENS = 200
_SHOWN = 40

_QUESTION = "Say hello in one short sentence."
_TASK = "What is the weather in Paris? Use the tool."
_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
_TOOL = {"name": "get_weather", "description": "The weather of a city.", "parameters": _PARAMETERS}
_FUNCTION = {"type": "function", "function": _TOOL}

Json = dict[str, Any]


class CheckFailed(Exception):
    """A test failed; the message describes the answer."""


@dataclass(frozen=True)
class ProbeOutcome:
    """The result of one test: the request, whether it worked, and the answer or the error."""

    what: str
    worked: bool
    detail: str


class ConnectionProber:
    """Sends the requests that one program would send."""

    def __init__(self, target: ConnectTarget) -> None:
        self._target = target
        self._address = urlsplit(target.url)

    def run(self, probe: str) -> ProbeOutcome:
        """Run one test of `PROBES`; never raises for the daemon's answer or the lack of one."""
        what, test = PROBES[probe]
        started = time.monotonic()
        try:
            detail = test(self)
        except CheckFailed as error:
            return ProbeOutcome(what, False, str(error))
        except TimeoutError:
            return ProbeOutcome(what, False, f"no answer within {_SECONDS:.0f} seconds")
        except (OSError, HTTPException) as error:
            return ProbeOutcome(what, False, f"the connection failed: {error}")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            return ProbeOutcome(what, False, f"the answer has an unexpected form: {error!r}")
        return ProbeOutcome(what, True, f"{detail} ({time.monotonic() - started:.1f} s)")

    def models(self) -> str:
        """`GET /v1/models`."""
        listed = [model["id"] for model in self._get("/v1/models")["data"]]
        return self._among(listed)

    def chat(self) -> str:
        """Test a streamed chat."""
        body = self._chat_body(_QUESTION, _FEW_TOKENS, temperature=0)
        chunks = list(self._events("/v1/chat/completions", body))
        text = "".join(_delta(chunk).get("content") or "" for chunk in chunks)
        return _text(text, chunks)

    def chat_tools(self) -> str:
        """Test a chat that must call a tool."""
        body = self._chat_body(_TASK, _CALL_TOKENS, tools=[_FUNCTION], tool_choice="required")
        name, arguments = "", ""
        for chunk in self._events("/v1/chat/completions", body):
            calls: list[Json] = _delta(chunk).get("tool_calls") or []
            for call in calls:
                if call["index"] > 0:
                    continue  # the model may call again
                name = name or call["function"].get("name") or ""
                arguments += call["function"].get("arguments") or ""
        return _call(name, arguments)

    def completion(self) -> str:
        """Test a streamed completion of raw text, as sent for autocompletion."""
        body = {
            "model": self._target.model,
            "prompt": "def add(a, b):\n    return ",
            "max_tokens": _FEW_TOKENS,
            "temperature": 0,
            "stream": True,
        }
        chunks = list(self._events("/v1/completions", body))
        texts = [chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]]
        return _text("".join(texts), chunks)

    def responses(self) -> str:
        """Test a streamed response."""
        events = list(self._events("/v1/responses", self._responses_body(_QUESTION, _FEW_TOKENS)))
        _check_end(events, "response.completed", "response.incomplete")
        deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
        return _text("".join(deltas), events)

    def responses_tools(self) -> str:
        """Test a response that must call a tool."""
        tools = [{"type": "function", **_TOOL}]
        body = self._responses_body(_TASK, _CALL_TOKENS, tools=tools, tool_choice="required")
        for event in self._events("/v1/responses", body):
            item = event.get("item", {})
            if event["type"] == "response.output_item.done" and item["type"] == "function_call":
                return _call(item["name"], item["arguments"])
        return _call("", "")

    def messages(self) -> str:
        """Test streamed messages."""
        events = list(self._messages(_QUESTION, _FEW_TOKENS))
        _check_end(events, "message_stop")
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        return _text("".join(delta.get("text", "") for delta in deltas), events)

    def messages_tools(self) -> str:
        """Test messages that must use a tool."""
        tool: Json = {"name": "get_weather", "input_schema": _PARAMETERS}
        tool["description"] = _TOOL["description"]
        name, arguments, block_index = "", "", -1
        extra = {"tools": [tool], "tool_choice": {"type": "any"}}
        for event in self._messages(_TASK, _CALL_TOKENS, **extra):
            block = event.get("content_block", {})
            if event["type"] == "content_block_start" and block["type"] == "tool_use" and not name:
                name, block_index = block["name"], event["index"]
            if event["type"] == "content_block_delta" and event["index"] == block_index:
                arguments += event["delta"].get("partial_json", "")
        return _call(name, arguments)

    def count_tokens(self) -> str:
        """`POST /v1/messages/count_tokens`."""
        body = self._conversation(_QUESTION)
        return f"{self._post('/v1/messages/count_tokens', body)['input_tokens']} tokens"

    def ollama_models(self) -> str:
        """Test the first requests of Ollama's clients: version, models, details of one."""
        version = self._get("/api/version")["version"]
        listed = [model["name"] for model in self._get("/api/tags")["models"]]
        found = self._among(listed)
        shown = self._post("/api/show", {"model": self._target.model})
        capabilities = ", ".join(shown["capabilities"])
        return f"version {version}, {found}, capabilities: {capabilities}"

    def ollama_chat(self) -> str:
        """Test a streamed chat in JSON lines."""
        chunks = list(self._lines("/api/chat", self._ollama_body(_QUESTION, _FEW_TOKENS)))
        if not chunks or not chunks[-1].get("done"):
            raise CheckFailed("the stream does not end with `done`")
        return _text("".join(chunk["message"].get("content", "") for chunk in chunks), chunks)

    def ollama_tools(self) -> str:
        """Test a chat that may call a tool: this protocol has no way to require it."""
        body = self._ollama_body(_TASK, _CALL_TOKENS, tools=[_FUNCTION])
        text = ""
        for chunk in self._lines("/api/chat", body):
            message: Json = chunk.get("message", {})
            calls: list[Json] = message.get("tool_calls") or []
            for call in calls:
                return _call(call["function"]["name"], json.dumps(call["function"]["arguments"]))
            text += message.get("content", "")
        return f"tools are accepted; the model chose to answer in words: {_shown(text)}"

    def infill(self) -> str:
        """Test an infill request."""
        body = {
            "model": self._target.model,
            "input_prefix": "def add(a, b):\n",
            "input_suffix": "\n\nprint(add(1, 2))\n",
            "input_extra": [{"filename": "x.py", "text": "# sums\n"}],
            "prompt": "    ",
            "n_predict": _FEW_TOKENS,
            "stream": False,
            "cache_prompt": True,
        }
        return f"fills in {_shown(self._post('/infill', body)['content'])}"

    def _conversation(self, text: str, **fields: Any) -> Json:
        messages = [{"role": "user", "content": text}]
        return {"model": self._target.model, "messages": messages, **fields}

    def _chat_body(self, text: str, tokens: int, **fields: Any) -> Json:
        options = {"include_usage": True}
        return self._conversation(
            text, max_tokens=tokens, stream=True, stream_options=options, **fields
        )

    def _responses_body(self, text: str, tokens: int, **fields: Any) -> Json:
        content = [{"type": "input_text", "text": text}]
        return {
            "model": self._target.model,
            "input": [{"type": "message", "role": "user", "content": content}],
            "max_output_tokens": tokens,
            "store": False,
            "stream": True,
            **fields,
        }

    def _ollama_body(self, text: str, tokens: int, **fields: Any) -> Json:
        options = {"num_predict": tokens, "temperature": 0}
        return self._conversation(text, options=options, stream=True, **fields)

    def _messages(self, text: str, tokens: int, **fields: Any) -> Iterator[Json]:
        body = self._conversation(text, max_tokens=tokens, stream=True, **fields)
        return self._events("/v1/messages?beta=true", body)

    def _among(self, listed: list[str]) -> str:
        if self._target.model not in listed:
            raise CheckFailed(f"'{self._target.model}' is not among: {', '.join(listed)}")
        return f"'{self._target.model}' is listed"

    def _get(self, path: str) -> Json:
        with self._request("GET", path, None) as response:
            return json.loads(response.read())

    def _post(self, path: str, body: Json) -> Json:
        with self._request("POST", path, body) as response:
            return json.loads(response.read())

    def _events(self, path: str, body: Json) -> Iterator[Json]:
        """Yield the data of each server-sent event; raises `CheckFailed` for an error event."""
        for line in self._lines_of(path, body):
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                yield _checked(json.loads(line[6:]))

    def _lines(self, path: str, body: Json) -> Iterator[Json]:
        """Yield the JSON of each line."""
        for line in self._lines_of(path, body):
            if line.strip():
                yield _checked(json.loads(line))

    def _lines_of(self, path: str, body: Json) -> Iterator[bytes]:
        with self._request("POST", path, body) as response:
            yield from response

    @contextmanager
    def _request(self, method: str, path: str, body: Json | None) -> Generator[HTTPResponse]:
        host, port = self._address.hostname or "127.0.0.1", self._address.port or 80
        connection = HTTPConnection(host, port, timeout=_SECONDS)
        headers = {
            "Authorization": f"Bearer {self._target.word}",
            "Content-Type": "application/json",
            # A model list has two forms on one path; no header of Anthropic's means OpenAI's.
            **({"anthropic-version": "2023-06-01"} if "/messages" in path else {}),
        }
        content = None if body is None else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise CheckFailed(f"{response.status}: {_error(response.read())}")
            yield response


def _delta(chunk: Json) -> Json:
    return chunk["choices"][0]["delta"] if chunk["choices"] else {}


def _check_end(events: list[Json], *wanted: str) -> None:
    kinds = [event["type"] for event in events]
    if not set(wanted) & set(kinds):
        raise CheckFailed(f"the stream ends with {kinds[-1] if kinds else 'nothing'}")


def _checked(event: Json) -> Json:
    # A failed response carries its error inside; other protocols send it separately.
    carrier = event.get("response", event) if event.get("type") == "response.failed" else event
    if carrier.get("error") or event.get("type") == "error":
        raise CheckFailed(_error(json.dumps(carrier).encode()))
    return event


def _error(content: bytes) -> str:
    """Return the error message in any protocol's error."""
    try:
        error: Any = json.loads(content)["error"]
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")
    return error if isinstance(error, str) else str(error["message"])


def _text(text: str, pieces: list[Json]) -> str:
    if not text.strip():
        raise CheckFailed("the answer is empty")
    return f"streams {_shown(text)} in {len(pieces)} pieces"


def _call(name: str, arguments: str) -> str:
    if not name:
        raise CheckFailed("the answer calls no tool")
    try:
        json.loads(arguments or "{}")
    except ValueError:
        raise CheckFailed(f"the call's arguments are not JSON: {_shown(arguments)}") from None
    return f"calls {name}({arguments})"


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


PROBES: Mapping[str, tuple[str, Callable[[ConnectionProber], str]]] = MappingProxyType(
    {
        "models": ("GET /v1/models", ConnectionProber.models),
        "chat": ("POST /v1/chat/completions", ConnectionProber.chat),
        "chat_tools": ("POST /v1/chat/completions, a tool", ConnectionProber.chat_tools),
        "completion": ("POST /v1/completions", ConnectionProber.completion),
        "responses": ("POST /v1/responses", ConnectionProber.responses),
        "responses_tools": ("POST /v1/responses, a tool", ConnectionProber.responses_tools),
        "messages": ("POST /v1/messages", ConnectionProber.messages),
        "messages_tools": ("POST /v1/messages, a tool", ConnectionProber.messages_tools),
        "count_tokens": ("POST /v1/messages/count_tokens", ConnectionProber.count_tokens),
        "ollama_models": ("GET /api/tags, POST /api/show", ConnectionProber.ollama_models),
        "ollama_chat": ("POST /api/chat", ConnectionProber.ollama_chat),
        "ollama_tools": ("POST /api/chat, a tool", ConnectionProber.ollama_tools),
        "infill": ("POST /infill", ConnectionProber.infill),
    }
)
"""Name and function of each test."""
