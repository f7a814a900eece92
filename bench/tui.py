"""How fast the chat is, in a pseudo-terminal: start, keys, streams, long chats, idling, memory."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chat_daemon import LAST
from chat_peers import NOT_MEASURED, make_peers
from chat_program import ChatProgram, Ingle, ScriptedDaemon
from kept_chats import END, keep_chat
from machine import median, save
from pseudo_terminal import LETTERS, PseudoTerminal
from server import free_port

from ingle.daemon.paths import find_paths

TYPED_AHEAD = "ДЖЗИЙ"
ALTERNATE_SCREEN = b"\x1b[?1049h"
GOALS = {
    "first_frame_over_interpreter_ms": 30,
    "live_ms": 300,
    "key_median_ms": 20,
    "key_p95_ms": 50,
    "open_5000_ms": 300,
    "idle_cpu_percent": 0.5,
    "memory_mb": 80,
}
SEED = 7
LONG = 5000
"""Messages of a chat that is long."""

Figures = dict[str, object]


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(seconds: list[float]) -> Figures:
    """Milliseconds: median, p95, the longest."""
    return {
        "median_ms": round(median(seconds) * 1000, 1),
        "p95_ms": round(percentile(seconds, 0.95) * 1000, 1),
        "max_ms": round(max(seconds) * 1000, 1),
        "count": len(seconds),
    }


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


# Typing and streaming


def ask(program: ChatProgram, terminal: PseudoTerminal, prompt: str) -> None:
    """Type a prompt and send it."""
    terminal.type(prompt)
    terminal.rest(0.05)
    terminal.type(program.submit)


def empty_composer(terminal: PseudoTerminal) -> None:
    """Take back what was typed."""
    terminal.rest(0.5)
    terminal.type("\x15")
    terminal.rest(0.5)


def open_kept(program: ChatProgram, terminal: PseudoTerminal, title: str) -> float:
    """Seconds from enter in the list of chats to the end of a kept chat on the screen."""
    terminal.type("\x07")
    terminal.wait_for_screen(lambda screen: "Filter by title" in screen or title in screen)
    terminal.type(title)
    terminal.settle(0.3, 5)
    at = terminal.type(program.submit)
    shown = terminal.wait_for_bytes(END.encode(), 30)
    if shown is None:
        raise RuntimeError(f"{title} was not opened; the screen:\n{terminal.text}")
    return shown - at


def press_keys(terminal: PseudoTerminal, letters: str, pause: float) -> list[float]:
    """Seconds from each key to its letter on the terminal; a key that is lost counts ten."""
    generator = random.Random(SEED)
    waits: list[float] = []
    for letter in letters:
        wait = terminal.press_and_wait(letter)
        waits.append(10.0 if wait is None else wait)
        terminal.rest(pause * generator.uniform(0.5, 1.5))
    return waits


def measure_stream(
    program: ChatProgram,
    terminal: PseudoTerminal,
    daemon: ScriptedDaemon,
    *,
    tokens: int,
    rate: int,
    letters: str,
) -> Figures:
    """Keys while an answer streams in, and how late its last token is on the screen."""
    before = len(daemon.sent("first"))
    ask(program, terminal, f"Go: {tokens} tokens at {rate}/s")
    while len(daemon.sent("first")) == before:
        terminal.rest(0.01)
    terminal.rest(0.5)
    start, bytes_before, cpu_before = time.perf_counter(), terminal.bytes_read, None
    cpu_before = terminal.cpu_seconds()
    keys = press_keys(terminal, letters, 0.6 * tokens / rate / max(1, len(letters)))
    elapsed = time.perf_counter() - start
    cpu = (terminal.cpu_seconds() - cpu_before) / elapsed
    written = (terminal.bytes_read - bytes_before) / elapsed
    painted = terminal.wait_for_bytes(LAST.encode(), 60)
    sent = daemon.sent("last")
    figures: Figures = {"tokens_a_second": rate, "tokens": tokens, "keys": summary(keys)}
    if painted is not None and len(sent):
        figures["last_token_ms"] = round((painted - sent[-1]) * 1000, 1)
    return figures | {
        "cpu_percent": round(cpu * 100, 1),
        "kilobytes_a_second": round(written / 1000, 1),
    }


def measure_idle(terminal: PseudoTerminal, seconds: float) -> float:
    """Percent of one core that it takes while nobody does anything."""
    terminal.settle(1.0)
    before, start = terminal.cpu_seconds(), time.perf_counter()
    terminal.rest(seconds)
    return (terminal.cpu_seconds() - before) / (time.perf_counter() - start) * 100


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
        opened = open_kept(ingle, terminal, f"Kept {arguments.messages}")
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
    """Opening a chat of 5,000 messages, typing in it, and what it takes."""
    opened: list[float] = []
    keys: list[float] = []
    memory: list[float] = []
    for _ in range(max(1, arguments.rounds // 3)):
        with ingle.running() as terminal:
            wait_for_composer(ingle, terminal)
            opened.append(open_kept(ingle, terminal, f"Kept {LONG}"))
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


def measure_program(program: ChatProgram, daemon: ScriptedDaemon) -> Figures:
    """What can be measured in any chat: its start, keys while nothing happens, keys in a stream."""
    figures: Figures = {}
    with program.running() as terminal:
        usable = terminal.wait_for_screen(
            lambda screen: (
                (ALTERNATE_SCREEN in terminal.raw or not program.whole_screen)
                and program.can_be_typed_in(screen)
            ),
            40,
        )
        if usable is None:
            raise RuntimeError(f"it never took keys; its screen:\n{terminal.text}")
        figures["start_ms"] = round((usable - terminal.started) * 1000, 1)
        try:
            program.open_chat(terminal)
            terminal.settle(1.0, 10)
            figures["idle_keys"] = summary(press_keys(terminal, LETTERS[:20], 0.1))
            terminal.type("\x7f" * 20)
            terminal.rest(1.0)
            letters = LETTERS[20:50]
            figures["stream"] = measure_stream(
                program, terminal, daemon, tokens=1500, rate=200, letters=letters
            )
        except RuntimeError as error:
            figures["not_measured"] = str(error)
        figures["memory_mb"] = round(terminal.memory(), 1)
    return figures


def measure_peers(ingle: Ingle, daemon: ScriptedDaemon, arguments: argparse.Namespace) -> Figures:
    """Other chats, each next to a run of ingle; a new chat each time, which is the easy case."""
    figures: Figures = {"not_measured": NOT_MEASURED}
    for peer in make_peers(ingle.folder.parent, ingle.port):
        try:
            peer.prepare()
            measure_program(peer, daemon)  # what a first run sets up does not count
            pairs = [
                (measure_program(ingle, daemon), measure_program(peer, daemon))
                for _ in range(arguments.pairs)
            ]
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            NOT_MEASURED[peer.name] = str(error)
            continue
        figures[peer.name] = compared(pairs)
    return figures


def compared(pairs: list[tuple[Figures, Figures]]) -> Figures:
    """The last pair as it was, and how many times ours each figure of the peer is (median)."""
    ours, theirs = ([flat(pair[side]) for pair in pairs] for side in (0, 1))
    ratios = {
        name: round(median([b[name] / a[name] for a, b in zip(ours, theirs, strict=True)]), 2)
        for name in ours[0]
        if all(run.get(name) for run in (*ours, *theirs))
    }
    return {"ingle": pairs[-1][0], "peer": pairs[-1][1], "times_ours": ratios}


def flat(figures: Figures, before: str = "") -> dict[str, float]:
    """The medians and single figures, by their whole names."""
    numbers: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            numbers |= flat(value, f"{before}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, (int, float)) and name not in ("count", "tokens"):
            numbers[before + name] = float(value)
    return numbers


def main() -> None:
    """Measure, print; with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="starts")
    parser.add_argument("--messages", type=int, default=500, help="before the measured answer")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds")
    parser.add_argument("--pairs", type=int, default=3, help="runs of ingle and of each peer")
    parser.add_argument("--parts", nargs="+", default=list(PARTS)[:3], choices=list(PARTS))
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ingle = Ingle(Path(folder) / "home", free_port())
        ingle.prepare()
        chats = find_paths(ingle.environment).chats
        for messages in {arguments.messages, LONG}:
            keep_chat(chats, f"Kept {messages}", messages)
        daemon = ScriptedDaemon(ingle.socket, ingle.port)
        try:
            figures: Figures = {
                part: PARTS[part](ingle, daemon, arguments) for part in arguments.parts
            }
        finally:
            daemon.close()
    show(figures)
    if arguments.save:
        name = "tui-peers" if arguments.parts == ["peers"] else "tui-ingle"
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
    "peers": measure_peers,
}


if __name__ == "__main__":
    main()
