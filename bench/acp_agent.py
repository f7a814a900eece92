"""An agent for chats that speak ACP: it passes prompts to an OpenAI-compatible port, no more.

JSON-RPC, a message a line, on standard input and output; the one argument is the port.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Generator
from typing import Any

from chat_daemon import MODEL

Json = dict[str, Any]


def tokens(port: int, text: str) -> Generator[str, None, None]:
    """The answer to one prompt, as it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    messages = [{"role": "user", "content": text}]
    body = {"model": MODEL, "messages": messages, "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    for line in connection.getresponse():
        data = line.removeprefix(b"data: ").strip()
        if data.startswith(b"{"):
            yield json.loads(data)["choices"][0]["delta"].get("content", "")
    connection.close()


def answer(port: int, request: Json) -> Json:
    """Return the result of a request; a prompt's answer is sent before."""
    match request["method"]:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
        case "session/new":
            return {"sessionId": "bench"}
        case "session/prompt":
            parts = request["params"]["prompt"]
            for token in tokens(port, " ".join(str(part.get("text", "")) for part in parts)):
                content = {"type": "text", "text": token}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                say(
                    {"method": "session/update", "params": {"sessionId": "bench", "update": update}}
                )
            return {"stopReason": "end_turn"}
        case _:
            return {}


def say(message: Json) -> None:
    """Send one message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    """Answer until the chat ends."""
    port = int(sys.argv[1])
    for line in sys.stdin:
        request: Json = json.loads(line)
        if "id" in request and "method" in request:
            say({"id": request["id"], "result": answer(port, request)})


if __name__ == "__main__":
    main()
