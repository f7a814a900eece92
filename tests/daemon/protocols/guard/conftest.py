"""A provider that is a real HTTP server on this machine, and bodies as agents send them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.daemon.conftest import RunningDaemon

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n"


@dataclass
class Upstream:
    """Records every byte of each request, and answers all with the same bytes, a pause apart."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list[bytes])
    pieces: list[bytes] = field(
        default_factory=lambda: [
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b"request-id: req_1\r\ncontent-length: 11\r\n\r\n",
            b'{"ok":true}',
        ]
    )
    hang: asyncio.Event | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[bytes]:
        return [request.partition(b"\r\n\r\n")[2] for request in self.requests]

    @property
    def everything(self) -> bytes:
        return b"".join(self.requests)

    def stream(self, *events: str, cut: int = 0) -> None:
        """Answer with these events, in pieces of `cut` bytes."""
        body = "".join(events).encode()
        size = cut or len(body)
        self.pieces = [SSE, *(body[at : at + size] for at in range(0, len(body), size))]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            ]
            self.requests.append(head + await reader.readexactly(lengths[0] if lengths else 0))
            if self.hang is not None:
                await self.hang.wait()
            for piece in self.pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except asyncio.IncompleteReadError:
            pass  # a connection that sent nothing
        finally:
            writer.close()


@pytest.fixture
async def upstream() -> AsyncGenerator[Upstream]:
    """A running provider."""
    server = Upstream()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()


async def begin(
    daemon: RunningDaemon, upstream: Upstream, *, strict: bool = False, local: str = ""
) -> str:
    """Begin to guard, and return the path of the guarded program."""
    servers = dict.fromkeys(("anthropic", "openai"), upstream.url)
    body = {"upstreams": servers, "strict": strict, "local": local}
    answer: httpx.Response = await daemon.unix.post("/ingle/v1/guard", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["path"]


def anthropic_body(content: str) -> bytes:
    """A turn of an agent after it has read a file, with what programs add, oddly spaced."""
    return dumps(
        {
            "model": "claude-opus-4-8",
            "max_tokens": 32000,
            "system": [
                {
                    "type": "text",
                    "text": "You are an agent.",
                    "cache_control": {"type": "ephemeral"},
                }
            ],
            "tools": [
                {
                    "name": "Read",
                    "description": "Reads a file.",
                    "input_schema": {
                        "type": "object",
                        "properties": {"file_path": {"type": "string"}},
                    },
                }
            ],
            "messages": [
                {"role": "user", "content": "What does the file say? It’s “odd”."},
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool_use",
                            "id": "toolu_01",
                            "name": "Read",
                            "input": {"file_path": "settings.txt"},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_01", "content": content}
                    ],
                },
            ],
            "some_new_field": [1.50, None, {"a": True}],
            "stream": True,
        }
    )


def chat_body(content: str) -> bytes:
    """The same as a chat completion."""
    call = {"name": "read", "arguments": json.dumps({"path": "settings.txt"})}
    return dumps(
        {
            "model": "gpt-5.5",
            "messages": [
                {"role": "system", "content": "You are an agent."},
                {"role": "user", "content": "What does the file say? It’s “odd”."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": content},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )


def responses_body(content: str) -> bytes:
    """The same as a request of Responses."""
    return dumps(
        {
            "model": "gpt-5.5-codex",
            "instructions": "You are an agent.",
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "What does the file say?"}],
                },
                {
                    "type": "function_call",
                    "name": "shell",
                    "arguments": '{"command":["cat","settings.txt"]}',
                    "call_id": "call_1",
                },
                {"type": "function_call_output", "call_id": "call_1", "output": content},
            ],
            "tools": [],
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
        }
    )


BODIES: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "messages": ("/anthropic/v1/messages?beta=true", anthropic_body),
    "chat": ("/openai/chat/completions", chat_body),
    "responses": ("/openai/responses", responses_body),
}
"""The path and the body of a turn in each protocol."""


def dumps(value: Any) -> bytes:
    """Return JSON as no encoder of ours writes it: spaces, escapes, a line break at the end."""
    return (json.dumps(value, indent=1).replace('": ', '" :  ') + "\n").encode()
