"""How fast the chat is, in a pseudo-terminal: start, keys, streams, long chats, idling, memory."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from chat_comparison import TYPED_AHEAD, compare
from chat_measures import (
    ALTERNATE_SCREEN,
    Figures,
    empty_composer,
    measure_idle,
    measure_stream,
    press_keys,
    summary,
)
from chat_peers import PEERS
from chat_program import ChatProgram, Ingle, ScriptedDaemon, open_chat_of
from kept_chats import keep_chat, kept_turns
from machine import median, save
from pseudo_terminal import LETTERS, PseudoTerminal
from server import free_port

from ingle.daemon.settings.paths import find_paths

GOALS = {
    "first_frame_over_interpreter_ms": 30,
    "live_ms": 300,
    "key_median_ms": 20,
    "key_p95_ms": 50,
    "open_5000_ms": 300,
    "idle_cpu_percent": 0.5,
    "memory_mb": 80,
}
LONG = 5000
"""Messages of a chat that is long."""
LINE = 20_000
"""Bytes a second of a slow line."""

# Starting


def interpreter_start(program: ChatProgram) -> float:
    """Seconds until a bare interpreter has written a byte to its terminal."""
    code = "import os; os.write(1, b'x')"
    with PseudoTerminal([sys.executable, "-c", code], program.environment) as terminal:
        terminal.settle(0.2, 5)
        assert terminal.first_byte is not None
        return terminal.first_byte - terminal.started


def start_once(program: ChatProgram) -> tuple[float, float, int]:
    """Seconds to the first frame and until typed keys are shown, and how many of them arrived.

    The keys come 10 ms apart from the start on: before, in, and after the first frame.
    """
    with program.running() as terminal:
        waiting = list(TYPED_AHEAD)
        next_at = terminal.started + 0.01
        first = live = None
        while live is None and time.perf_counter() - terminal.started < 20:
            if waiting and time.perf_counter() >= next_at:
                next_at = terminal.type(waiting.pop(0)) + 0.01
            if not terminal.read(0.001):
                continue
            now = time.perf_counter()
            # Up to here the terminal itself echoes what is typed.
            _, found, own = terminal.raw.partition(ALTERNATE_SCREEN)
            first = first or (now if found and own else None)
            live = now if all(key.encode() in own for key in TYPED_AHEAD) else None
        assert first is not None
        kept = TYPED_AHEAD if TYPED_AHEAD in terminal.text else ""
        at = live if live is not None else time.perf_counter()
        return first - terminal.started, at - terminal.started, len(kept)


def measure_start(ingle: Ingle, rounds: int) -> Figures:
    """First frame over the interpreter's start, live, keys kept; turn and turn about."""
    start_once(ingle)
    bare: list[float] = []
    first: list[float] = []
    live: list[float] = []
    kept: list[int] = []
    for _ in range(rounds):
        bare.append(interpreter_start(ingle))
        frame, usable, keys = start_once(ingle)
        first.append(frame)
        live.append(usable)
        kept.append(keys)
    over = [frame - start for frame, start in zip(first, bare, strict=True)]
    return {
        "interpreter": summary(bare),
        "first_frame": summary(first),
        "first_frame_over_interpreter_ms": round(median(over) * 1000, 1),
        "live_ms": round(median(live) * 1000, 1),
        "keys_kept_of_5": min(kept),
    }


def wait_for_composer(program: ChatProgram, terminal: PseudoTerminal) -> None:
    """Until it can be typed in."""
    if terminal.wait_for_screen(program.can_be_typed_in) is None:
        raise RuntimeError(f"{program.name} never took keys; its screen:\n{terminal.text}")
    program.open_chat(terminal)
    terminal.settle(0.3, 5)


def measure_chat(ingle: Ingle, daemon: ScriptedDaemon, arguments: argparse.Namespace) -> Figures:
    """All that is measured in a chat with earlier messages, in one process."""
    with ingle.running() as terminal:
        wait_for_composer(ingle, terminal)
        opened = open_chat_of(ingle, terminal, f"Kept {arguments.messages}")
        figures: Figures = {"messages": arguments.messages, "open_ms": round(opened * 1000, 1)}
        terminal.settle(1.0)
        figures["idle_keys"] = summary(press_keys(terminal, LETTERS[:20], 0.1))
        empty_composer(terminal)
        figures["stream_200"] = measure_stream(
            ingle, terminal, daemon, tokens=2000, rate=200, letters=LETTERS
        )
        empty_composer(terminal)
        figures["stream_1000"] = measure_stream(
            ingle, terminal, daemon, tokens=5000, rate=1000, letters=LETTERS[:20]
        )
        terminal.rest(1.0)
        figures["idle_cpu_percent"] = round(measure_idle(terminal, arguments.idle), 2)
        figures["memory_mb"] = round(terminal.memory(), 1)
        return figures


def measure_long(ingle: Ingle, _daemon: ScriptedDaemon, arguments: argparse.Namespace) -> Figures:
    """Measure opening a chat of 5,000 messages, typing in it, and its resource use."""
    opened: list[float] = []
    keys: list[float] = []
    memory: list[float] = []
    for _ in range(max(1, arguments.rounds // 3)):
        with ingle.running() as terminal:
            wait_for_composer(ingle, terminal)
            opened.append(open_chat_of(ingle, terminal, f"Kept {LONG}"))
            keys += press_keys(terminal, LETTERS[:20], 0.1)
            empty_composer(terminal)
            terminal.settle(2.0)
            memory.append(terminal.memory())
    return {
        "messages": LONG,
        "open_ms": round(median(opened) * 1000, 1),
        "keys_right_after": summary(keys),
        "memory_mb": round(median(memory), 1),
    }


def measure_line(ingle: Ingle, daemon: ScriptedDaemon, _arguments: argparse.Namespace) -> Figures:
    """Keys in a stream over a slow line: as before, without replies, and paced by them."""
    figures: Figures = {"bytes_a_second": LINE}
    for name, replies in (("without_replies", False), ("paced", True)):
        with ingle.running(rate=LINE, replies=replies) as terminal:
            wait_for_composer(ingle, terminal)
            terminal.settle(1.0)
            figures[name] = measure_stream(
                ingle, terminal, daemon, tokens=8000, rate=200, letters=LETTERS[:12]
            )
    return figures


BUSY = "while True: pass"


@contextmanager
def busy_cores(count: int, code: str = BUSY) -> Generator[None]:
    """Processes that compute all the time, each in a session of its own."""
    command = [sys.executable, "-c", code]
    load = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


def measure_load(ingle: Ingle, daemon: ScriptedDaemon, _arguments: argparse.Namespace) -> Figures:
    """Keys in a stream while processes compute on every core, at their priority and at ours."""
    figures: Figures = {}
    for name, first in (
        ("at_normal_priority", ""),
        (
            "at_the_priority_of_workers",
            "from ingle.backends.base.process_priority import yield_to_interactive\n"
            "yield_to_interactive()\nyield_to_interactive()\n",
        ),
    ):
        with busy_cores(os.cpu_count() or 1, first + BUSY), ingle.running() as terminal:
            wait_for_composer(ingle, terminal)
            figures[name] = measure_stream(
                ingle, terminal, daemon, tokens=4000, rate=200, letters=LETTERS[:40]
            )
    return figures


def measure_peers(ingle: Ingle, daemon: ScriptedDaemon, arguments: argparse.Namespace) -> Figures:
    """Other chats in rounds with ingle; a new chat each time, which is the easy case."""
    with busy_cores(arguments.busy):
        return {"busy_processes": arguments.busy} | compare(
            ingle,
            daemon,
            rounds=arguments.pairs,
            idle=min(5.0, arguments.idle),
            names=arguments.peers,
        )


def main() -> None:
    """Measure, print; with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="starts")
    parser.add_argument("--messages", type=int, default=500, help="before the measured answer")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds")
    parser.add_argument("--pairs", type=int, default=3, help="rounds with the peers")
    parser.add_argument("--busy", type=int, default=0, help="computing processes beside the peers")
    names = [kind.name for kind in PEERS]
    parser.add_argument("--peers", nargs="+", default=[], choices=names, help="only these")
    parser.add_argument("--parts", nargs="+", default=list(PARTS)[:3], choices=list(PARTS))
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ingle = Ingle(Path(folder) / "home", free_port())
        ingle.prepare()
        chats = find_paths(ingle.environment).chats
        for messages in {arguments.messages, LONG}:
            keep_chat(chats, f"Kept {messages}", kept_turns(messages))
        daemon = ScriptedDaemon(ingle.socket, ingle.port)
        try:
            figures: Figures = {
                part: PARTS[part](ingle, daemon, arguments) for part in arguments.parts
            }
        finally:
            daemon.close()
    show(figures)
    if arguments.save:
        own = {"peers": "tui-peers", "line": "tui-line", "load": "tui-load"}
        name = own.get(arguments.parts[0], "tui-ingle") + ("-busy" if arguments.busy else "")
        print(save(name, {"goals": GOALS, **figures}))


def show(figures: Figures, indent: str = "") -> None:
    """Print nested figures as lines."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")  # pyright: ignore[reportUnknownArgumentType]
        else:
            print(f"{indent}{name:34} {value}")


PARTS: dict[str, Callable[[Ingle, ScriptedDaemon, argparse.Namespace], Figures]] = {
    "start": lambda ingle, _daemon, arguments: measure_start(ingle, arguments.rounds),
    "chat": measure_chat,
    "long": measure_long,
    "line": measure_line,
    "load": measure_load,
    "peers": measure_peers,
}


if __name__ == "__main__":
    main()
