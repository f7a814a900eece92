"""Tokens per second through the daemon, beside the bare engine and llama-cpp-python's own loop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import llama_cpp
from machine import median, save

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
TOPICS = ["fishing", "trains", "space", "bread", "music", "rain", "chess", "maps"]
MANY = [f"{topic} in {place}" for topic in TOPICS for place in ("Rome", "Oslo", "Lima", "Cairo")]
"""32 of them, for as many streams at once."""

TOKENS = 64
REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
CONTEXT = 4096
SETTINGS = {"INGLE_CONTEXT": str(CONTEXT), "INGLE_SLOTS": "32"}


def prompt(topic: str) -> str:
    """A raw prompt of a few tokens."""
    return f"Write a long story about {topic}.\nOnce upon a time"


class Daemon:
    """A daemon of its own on a socket of its own."""

    def __init__(self, home: Path, model: Path) -> None:
        self.socket = home / "ingle.sock"
        self.model = str(model)
        self.process = subprocess.Popen(
            [INGLE, "serve", "--port", "-1", "--socket", str(self.socket)],
            env={**os.environ, "INGLE_HOME": str(home), **SETTINGS},
            stdout=subprocess.DEVNULL,
        )
        while not self.socket.exists():
            time.sleep(0.01)

    def stop(self) -> None:
        """End it and its workers."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    async def stream(self, topic: str) -> None:
        """Read one streamed completion of `TOKENS` tokens to its end.

        The client shares the cores with the server, so it only counts events.
        """
        body = json.dumps(
            {
                "model": self.model,
                "prompt": prompt(topic),
                "max_tokens": TOKENS,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        reader, writer = await asyncio.open_unix_connection(str(self.socket))
        writer.write(REQUEST % len(body) + body)
        tail = b""
        while chunk := await reader.read(2**16):
            tail = (tail + chunk)[-2000:]
        writer.close()
        if f'"completion_tokens":{TOKENS}'.encode() not in tail:
            sys.exit(f"expected {TOKENS} tokens, got {tail!r}")

    async def one_after_another(self, topics: list[str]) -> float:
        """Tokens per second of all streams in turn."""
        start = time.perf_counter()
        for topic in topics:
            await self.stream(topic)
        return len(topics) * TOKENS / (time.perf_counter() - start)

    async def at_once(self, topics: list[str]) -> float:
        """Tokens per second of all streams together."""
        start = time.perf_counter()
        await asyncio.gather(*(self.stream(topic) for topic in topics))
        return len(topics) * TOKENS / (time.perf_counter() - start)


def bare_engine(runner: LlamaModelRunner, topics: list[str]) -> float:
    """Tokens per second of the same sequences in this process: no pipe, no text, no HTTP."""
    engine = Engine(runner)
    start = time.perf_counter()
    for topic in topics:
        tokens = runner.tokenizer.encode(prompt(topic), add_special=True, parse_special=True)
        greedy = SamplingParams(temperature=0)
        engine.add(Sequence(topic, 0, tokens, greedy, max_tokens=TOKENS, ignore_eos=True))
    while engine.has_work:
        engine.step()
    return len(topics) * TOKENS / (time.perf_counter() - start)


def binding(model: llama_cpp.Llama, topic: str) -> float:
    """Tokens per second of llama-cpp-python's own generation loop."""
    tokens = model.tokenize(prompt(topic).encode(), special=True)
    start = time.perf_counter()
    for count, _ in enumerate(model.generate(tokens, temp=0.0), 1):
        if count == TOKENS:
            break
    return TOKENS / (time.perf_counter() - start)


def in_turn(speed: Callable[[str], float]) -> float:
    """Tokens per second of all topics one after another."""
    return len(TOPICS) / sum(1 / speed(topic) for topic in TOPICS)


def main() -> None:
    """Measure in turn, round by round; print; with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    spec = LoadSpec(engine="llama.cpp", path=str(arguments.model), context=CONTEXT, slots=len(MANY))
    runner = LlamaModelRunner(spec)
    llama = llama_cpp.Llama(str(arguments.model), n_ctx=CONTEXT, flash_attn=True, verbose=False)
    rounds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(Path(folder), arguments.model.resolve())
        asyncio.run(daemon.at_once(MANY))
        for _ in range(arguments.rounds):
            for name, figure in (
                ("daemon_one", asyncio.run(daemon.one_after_another(TOPICS))),
                ("engine_one", in_turn(lambda topic: bare_engine(runner, [topic]))),
                ("binding_one", in_turn(lambda topic: binding(llama, topic))),
                ("daemon_eight", asyncio.run(daemon.at_once(TOPICS))),
                ("engine_eight", bare_engine(runner, TOPICS)),
                ("daemon_many", asyncio.run(daemon.at_once(MANY))),
                ("engine_many", bare_engine(runner, MANY)),
            ):
                rounds.setdefault(name, []).append(figure)
        daemon.stop()
    middle = {name: median(values) for name, values in rounds.items()}
    ratios = {
        "eight_at_once_over_one_after_another": middle["daemon_eight"] / middle["daemon_one"],
        "daemon_over_engine_one": middle["daemon_one"] / middle["engine_one"],
        "daemon_over_engine_eight": middle["daemon_eight"] / middle["engine_eight"],
        "daemon_over_engine_32": middle["daemon_many"] / middle["engine_many"],
        "daemon_over_binding_one": middle["daemon_one"] / middle["binding_one"],
    }
    added = 1000 / middle["daemon_one"] - 1000 / middle["engine_one"]
    for name, value in middle.items():
        print(f"{name:40} {value:8.1f} tokens/s")
    for name, value in ratios.items():
        print(f"{name:40} {value:8.2f}")
    print(f"{'added a token, one stream':40} {added:8.2f} ms")
    if arguments.save:
        figures: dict[str, object] = {
            "model": arguments.model.name,
            "tokens_a_stream": TOKENS,
            "rounds": arguments.rounds,
            "tokens_per_second": {name: round(value, 1) for name, value in middle.items()},
            "ratios": {name: round(value, 3) for name, value in ratios.items()},
            "added_milliseconds_a_token": round(added, 3),
        }
        print(save("throughput", figures))


if __name__ == "__main__":
    # Workers run with this setting, which OpenMP reads once as it is loaded: start again with it.
    if "GOMP_SPINCOUNT" not in os.environ:
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "GOMP_SPINCOUNT": "1000"}
        )
    main()
