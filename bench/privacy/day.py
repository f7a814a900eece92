"""A day on `auto`: what of one person's prompts stayed, what left, what was masked, and why.

    PYTHONPATH=bench uv run bench/privacy/day.py MODEL.gguf [--save]

Starts a daemon with a home of its own, MODEL and a provider on this machine that records what it
receives. The prompts of `corpora/day.toml` go through the protocols of Codex, Claude Code and the
chat. The person agrees to what the chat asks about; an agent cannot ask. A value that the
explanation masks must not be among the received bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
from machine import save  # bench/, on the path beside this folder
from server import free_port

CORPUS = Path(__file__).parent / "corpora" / "day.toml"
_INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
_TOKENS = 2
_STARTED_WITHIN = 60.0
FOLDER = "/home/marta/src/shop"
SYSTEM = f"""You are a coding agent in a terminal on the user's computer. Be precise and brief.
Read files before you change them. Never run destructive commands such as `git reset --hard`
without being told to. Do not guess API keys, tokens or passwords, and never print them.
Use `rg` to search. Keep the user's style. Run the tests that you touched.
Today's date: 2026-11-28. Working directory: {FOLDER}. Platform: linux. Shell: bash.
"""
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "A file"}}}
_READ = {"name": "read_file", "description": "Reads a file of the working directory."}


class Prompt(msgspec.Struct, frozen=True):
    """A prompt, what a tool of the agent read, and what may become of both (`fit`)."""

    client: str
    fit: str
    text: str
    result: str = ""


def prompts_of_day() -> list[Prompt]:
    """All of them, in order."""
    return msgspec.convert(tomllib.loads(CORPUS.read_text())["prompt"], list[Prompt])


class Outcome(msgspec.Struct, frozen=True):
    """What became of a prompt: `stayed`, `left` or `masked`, the explanation, and the kinds found.

    `leaked` are values that the explanation masks and that arrived.
    """

    client: str
    text: str
    fit: str
    became: str
    asked: bool
    placeholders: list[str]
    leaked: list[str]
    rule: str
    reason: str

    @property
    def right(self) -> bool:
        """Whether that fits."""
        return (
            self.became
            in {
                "leaves": ("left", "masked") if not self.asked else (),
                "masked": ("masked", "stayed"),
                "asks": ("stayed", *(("masked", "left") if self.asked else ())),
                "stays": ("stayed",),
            }[self.fit]
        )


class Cloud(ThreadingHTTPServer):
    """A provider on this machine that answers "Fine." and records bodies."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CloudHandler)
        self.received: list[str] = []

    def take(self) -> str:
        """Return what arrived since the last call, as text."""
        bodies, self.received = self.received, []
        return "\n".join(bodies)


class _CloudHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        cloud = self.server
        assert isinstance(cloud, Cloud)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        cloud.received.append(json.dumps(body, ensure_ascii=False))
        delta = {"role": "assistant", "content": "Fine."}
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
        answer = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return


def messages_of(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation as chat completions, for the explanation."""
    messages: list[dict[str, Any]] = []
    if prompt.client != "chat":
        messages.append({"role": "system", "content": SYSTEM})
    messages.append({"role": "user", "content": prompt.text})
    if prompt.result:
        function = {"name": "read_file", "arguments": '{"path": "it"}'}
        call = {"id": "call_1", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": prompt.result})
    return messages


def as_codex(prompt: Prompt) -> tuple[str, dict[str, Any]]:
    """Path and body of the Responses API, as Codex asks."""

    def said(role: str, text: str) -> dict[str, Any]:
        return {
            "type": "message",
            "role": role,
            "content": [{"type": "input_text", "text": text}],
        }

    items = [
        said("developer", SYSTEM),
        said("user", f"<environment_context>\n<cwd>{FOLDER}</cwd>\n</environment_context>"),
        said("user", prompt.text),
    ]
    if prompt.result:
        call = {"call_id": "call_1", "name": "read_file", "arguments": '{"path": "it"}'}
        items.append({"type": "function_call", **call})
        output = {"call_id": "call_1", "output": prompt.result}
        items.append({"type": "function_call_output", **output})
    tool = {"type": "function", "strict": False, **_READ, "parameters": _SCHEMA}
    body = {"model": "auto", "input": items, "tools": [tool], "stream": True, "store": False}
    return "/v1/responses", {**body, "max_output_tokens": _TOKENS}


def as_claude(prompt: Prompt) -> tuple[str, dict[str, Any]]:
    """Path and body of the Messages API, as Claude Code asks."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": prompt.text}]}
    ]
    if prompt.result:
        call = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "it"}}
        messages.append({"role": "assistant", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": prompt.result}
        messages.append({"role": "user", "content": [result]})
    body = {"model": "auto", "system": [{"type": "text", "text": SYSTEM}], "messages": messages}
    tools = [{**_READ, "input_schema": _SCHEMA}]
    return "/v1/messages", {**body, "tools": tools, "max_tokens": _TOKENS, "stream": True}


def as_chat(prompt: Prompt, consent: str) -> tuple[str, dict[str, Any]]:
    """Path and body of chat completions, with the consent that the chat got."""
    body = {"model": "auto", "messages": messages_of(prompt), "max_tokens": _TOKENS}
    return "/v1/chat/completions", {**body, **({"ingle": {"consent": consent}} if consent else {})}


def spend(prompt: Prompt, daemon: httpx.Client, cloud: Cloud) -> Outcome:
    """Send one prompt, and see what became of it."""
    asked = daemon.post(
        "/ingle/v1/routing/explain", json={"model": "auto", "messages": messages_of(prompt)}
    )
    explanation: dict[str, Any] = asked.raise_for_status().json()
    consents: dict[str, str] = explanation.get("consents", {}) if prompt.client == "chat" else {}
    consent: str = consents.get("redact") or consents.get("cloud") or ""
    path, body = {
        "codex": lambda: as_codex(prompt),
        "claude": lambda: as_claude(prompt),
        "chat": lambda: as_chat(prompt, consent),
    }[prompt.client]()
    cloud.take()
    answer = daemon.post(path, json=body).raise_for_status()
    arrived = cloud.take()
    sources = {part["content"] for part in messages_of(prompt)}
    masked = [
        (span["name"], source[span["start"] : span["end"]])
        for part in explanation.get("redacted", ())
        for source in sources
        for span in part["replaced"]
        if part["where"] and _is_of(part, source)
    ]
    route = dict(
        one.split("=", 1) for one in answer.headers["ingle-route"].split("; ") if "=" in one
    )
    became = "stayed" if not arrived else "masked" if "_1]" in arrived else "left"
    return Outcome(
        client=prompt.client,
        text=prompt.text,
        fit=prompt.fit,
        became=became,
        asked=bool(consent),
        placeholders=list(dict.fromkeys(name for name, _ in masked)) if arrived else [],
        leaked=[value for _, value in masked if value in arrived],
        rule=route["rule"],
        reason=explanation["reason"],
    )


def _is_of(part: dict[str, Any], source: str) -> bool:
    """Whether a redacted text was made of this one: what is before the first placeholder is."""
    start = part["replaced"][0]["start"] if part["replaced"] else 0
    return bool(part["replaced"]) and source[:start] == part["text"][:start]


@contextmanager
def running(home: Path, model: Path, cloud: Cloud) -> Generator[httpx.Client]:
    """Yield a client of a new daemon that has the model and the provider."""
    port = free_port()
    environment = os.environ | {
        "INGLE_HOME": str(home),
        "INGLE_DEFAULT_MODEL": str(model),
        "INGLE_CONTEXT": "4096",
        "INGLE_THREADS": "1",
    }
    address = f"http://127.0.0.1:{cloud.server_port}/v1"
    adding = ("provider", "add", "sky", "--preset", "own", "--url", address, "--model", "m-1")
    subprocess.run([_INGLE, *adding], env=environment, check=True, stdout=subprocess.DEVNULL)
    serving = [_INGLE, "serve", "--port", str(port)]
    with (
        subprocess.Popen(serving, env=environment, stdout=subprocess.DEVNULL) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client,
    ):
        try:
            _wait(client)
            yield client
        finally:
            process.terminate()


def _wait(client: httpx.Client) -> None:
    deadline = time.monotonic() + _STARTED_WITHIN
    while True:
        try:
            client.get("/health").raise_for_status()
            return
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def table(outcomes: list[Outcome]) -> str:
    """Markdown: one row a prompt."""
    rows = ["| from | prompt | became | because |", "|---|---|---|---|"]
    for one in outcomes:
        became = one.became + (", asked" if one.asked else "") + ("" if one.right else " **(!)**")
        names = f" {' '.join(one.placeholders)}" if one.placeholders else ""
        text = one.text.replace("|", "\\|")
        rows.append(f"| {one.client} | {text} | {became}{names} | {one.reason} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    prompts = prompts_of_day()
    cloud = Cloud()
    threading.Thread(target=cloud.serve_forever, daemon=True).start()
    with (
        tempfile.TemporaryDirectory() as home,
        running(Path(home), options.model.resolve(), cloud) as daemon,
    ):
        outcomes: list[Outcome] = []
        for prompt in prompts:
            outcomes.append(spend(prompt, daemon, cloud))
            print(f"{len(outcomes)} of {len(prompts)}", file=sys.stderr)
    cloud.shutdown()
    cloud.server_close()
    print(table(outcomes))
    counts = Counter((one.became, one.right) for one in outcomes)
    print(dict(counts), "leaked:", sum(bool(one.leaked) for one in outcomes), file=sys.stderr)
    if options.save:
        rows = [{**msgspec.to_builtins(one), "right": one.right} for one in outcomes]
        print(save("privacy-day", {"model": options.model.name, "prompts": rows}), file=sys.stderr)


if __name__ == "__main__":
    main()
