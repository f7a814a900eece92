"""An agent's first token after a restart, beside the same turn from memory and the first one ever.

With --growth instead: a long prompt, by each protocol, to a model that is loaded with less context.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_session import PATHS, AgentPrompt, Json, Turn, body_of, send
from ingle_server import IngleServer
from machine import median, save
from server import Settings

READY_WITHIN = 600.0
SAVED_AFTER = 6.0
"""Seconds after which a model has written what it computed."""


class AgentServer(IngleServer):
    """The daemon, with a model that is loaded for an agent."""

    def agent_is_ready(self) -> bool:
        """Whether a prompt was computed ahead."""
        (model,) = self.read("/ingle/v1/status")["models"]
        return any(not agent["computing"] for agent in model["known_agents"])

    def read(self, path: str) -> Json:
        """The answer to a GET that has to succeed."""
        status, content = self._call("GET", path, None)
        if status != 200:
            raise RuntimeError(f"{path}: status {status}")
        return json.loads(content)

    def until_agent_is_ready(self) -> float:
        """Wait until a prompt was computed ahead; the seconds that this took."""
        began = time.perf_counter()
        while not self.agent_is_ready():
            if time.perf_counter() - began > READY_WITHIN:
                raise RuntimeError("nothing was computed ahead")
            time.sleep(0.05)
        return time.perf_counter() - began


class Sessions:
    """New sessions of one agent, each with a question of its own."""

    def __init__(self, server: AgentServer, prompt: AgentPrompt, protocol: str) -> None:
        self._server = server
        self._prompt = prompt
        self._protocol = protocol
        self._numbers = iter(range(10**6))

    def ask(self, tokens: int = 8) -> Turn:
        """Begin a session."""
        said = f"Question {next(self._numbers)}: what does this project do? Answer in a sentence."
        body = body_of(self._protocol, self._prompt, self._server.model_name(), said, tokens)
        turn = send(self._server.port, self._protocol, body)
        print(f"  {self._protocol}: {turn}", file=sys.stderr)
        return turn


def restarts(
    server: AgentServer, sessions: Sessions, runs: int
) -> Iterator[tuple[str, list[Turn]]]:
    """Yield what was measured and its turns."""
    yield "nothing known", [sessions.ask()]
    yield "from memory", [sessions.ask() for _ in range(runs)]
    time.sleep(SAVED_AFTER)
    at_once: list[Turn] = []
    ahead: list[Turn] = []
    with_load: list[Turn] = []
    for _ in range(runs):
        server.restart()
        at_once.append(sessions.ask())
        time.sleep(SAVED_AFTER)
        server.restart()
        print(f"  ready after {server.until_agent_is_ready():.1f} s", file=sys.stderr)
        ahead.append(sessions.ask())
        time.sleep(SAVED_AFTER)
        model = server.model_name()
        server.post("/ingle/v1/unload", {"model": model})
        with_load.append(sessions.ask())
        time.sleep(SAVED_AFTER)
    yield "after a restart, model loaded, at once", at_once
    yield "after a restart, read ahead", ahead
    yield "model not loaded", with_load


def growth(
    server: AgentServer, prompt: AgentPrompt, context: int
) -> Iterator[tuple[str, list[Turn]]]:
    """Yield the protocol and its turn, each with a model that is loaded with a short context."""
    for protocol in PATHS:
        model = server.model_name()
        server.post("/ingle/v1/unload", {"model": model})
        server.post("/ingle/v1/load", {"model": model, "context": context, "keep_alive": -1})
        yield protocol, [Sessions(server, prompt, protocol).ask()]
        time.sleep(SAVED_AFTER)


def figures(turns: list[Turn]) -> Json:
    """The medians, and all turns."""
    return {
        "first_token": round(median([turn.first_token for turn in turns]), 3),
        "seconds": round(median([turn.seconds for turn in turns]), 3),
        "prompt_tokens": turns[-1].prompt_tokens,
        "cached_tokens": turns[-1].cached_tokens,
        "turns": [asdict(turn) for turn in turns],
    }


def main() -> None:
    """Measure, and write bench/results/agents-*.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--characters", type=int, default=34_000, help="before the conversation")
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_args()
    prompt = AgentPrompt.of(options.characters)
    settings = Settings(threads=0, slots=2, context=0 if options.growth else options.context)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ingle-agents-") as folder:
        server = AgentServer(settings, Path(folder))
        try:
            server.start(options.model.absolute())
            measured = (
                growth(server, prompt, options.context)
                if options.growth
                else restarts(server, Sessions(server, prompt, "chat completions"), options.runs)
            )
            for name, turns in measured:
                results[name] = figures(turns)
                print(f"{name:40}{results[name]['first_token']:9.2f} s", flush=True)
        finally:
            server.stop()
    kind = "growth" if options.growth else "prefix"
    facts = {"model": options.model.name, "characters": options.characters, **asdict(settings)}
    print(save(f"agents-{kind}-{options.model.stem}", {**facts, "results": results}))


if __name__ == "__main__":
    main()
