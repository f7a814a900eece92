"""An agent's first token after a restart, beside the same turn from memory and the first one ever.

With --peer, llama-server then does the same in the same run, its slot saved and restored by hand.
With --growth instead: a long prompt, by each protocol, to a model that is loaded with less context.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
from agent_session import PATHS, AgentPrompt, Json, Turn, body_of, send
from ingle_server import IngleServer
from machine import median, save
from peers import LlamaServer
from server import Server, Settings

READY_WITHIN = 600.0
_FIRST_WORDS = ("My", "One", "Next", "Another", "First", "Quick", "Short")
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


class SavingLlamaServer(LlamaServer):
    """llama-server, with a folder for slots and the templates of tools."""

    def command(self, model: Path) -> list[str]:
        """See `Server`."""
        return [*super().command(model), "--slot-save-path", str(self.folder), "--jinja"]


class Sessions:
    """New sessions of one agent, each with a question of its own."""

    def __init__(self, server: Server, prompt: AgentPrompt, protocol: str) -> None:
        self._server = server
        self._prompt = prompt
        self._protocol = protocol
        self._numbers = iter(range(10**6))

    def ask(self, tokens: int = 8) -> Turn:
        """Begin a session."""
        number = next(self._numbers)
        # The first token differs from the session's before, so that all compute as many.
        said = f"{_FIRST_WORDS[number % len(_FIRST_WORDS)]} question {number}: what does this "
        said += "project do? Answer in a sentence."
        body = body_of(self._protocol, self._prompt, self._server.model_name(), said, tokens)
        body |= {"id_slot": 0} if isinstance(self._server, SavingLlamaServer) else {}
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


def slots_by_hand(
    server: SavingLlamaServer, sessions: Sessions, runs: int
) -> Iterator[tuple[str, list[Turn]]]:
    """Yield what was measured and its turns."""
    yield "llama-server, nothing known", [sessions.ask()]
    yield "llama-server, from memory", [sessions.ask() for _ in range(runs)]
    file: dict[str, object] = {"filename": "agent.bin"}
    server.post("/slots/0?action=save", file)
    restored: list[Turn] = []
    with_restoring: list[Turn] = []
    for _ in range(runs):
        server.restart()
        began = time.perf_counter()
        server.post("/slots/0?action=restore", file)
        seconds = time.perf_counter() - began
        turn = sessions.ask()
        restored.append(turn)
        with_restoring.append(replace(turn, first_token=turn.first_token + seconds))
    yield "llama-server, after a restart, slot restored before", restored
    yield "llama-server, after a restart, with restoring", with_restoring


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


def take(measured: Iterable[tuple[str, list[Turn]]], results: dict[str, Any]) -> None:
    """Print and keep the figures as they come."""
    for name, turns in measured:
        results[name] = figures(turns)
        print(f"{name:52}{results[name]['first_token']:9.2f} s", flush=True)


def measure_peer(
    options: argparse.Namespace, prompt: AgentPrompt, folder: Path, results: dict[str, Any]
) -> None:
    """Measure llama-server, which has as many threads as there are processors."""
    threads = psutil.cpu_count(logical=False) or 1
    server = SavingLlamaServer(Settings(threads, slots=1, context=options.context), folder)
    try:
        server.start(options.model.absolute())
        sessions = Sessions(server, prompt, "chat completions")
        take(slots_by_hand(server, sessions, options.runs), results)
    finally:
        server.stop()


def main() -> None:
    """Measure, and write bench/results/agents-*.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--characters", type=int, default=34_000, help="before the conversation")
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--peer", action="store_true", help="llama-server on PATH as well")
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
            take(measured, results)
        finally:
            server.stop()
        if options.peer:
            measure_peer(options, prompt, Path(folder), results)
    kind = "growth" if options.growth else "prefix"
    facts = {"model": options.model.name, "characters": options.characters, **asdict(settings)}
    print(save(f"agents-{kind}-{options.model.stem}", {**facts, "results": results}))


if __name__ == "__main__":
    main()
