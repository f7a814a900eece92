"""Measures of any terminal chat: keys, streams, and idle cost."""

from __future__ import annotations

import random
import time

from chat_daemon import LAST
from chat_program import ChatProgram, ScriptedDaemon
from machine import median
from pseudo_terminal import PseudoTerminal

ALTERNATE_SCREEN = b"\x1b[?1049h"
SEED = 7
MOST_SECONDS = 40.0
"""How long keys are pressed at most."""
MOST_LOST = 3
"""Keys that may be lost before nothing is measured any more."""
PATIENCE = 30.0
"""Seconds for a prompt to reach the daemon."""

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


def ask(program: ChatProgram, terminal: PseudoTerminal, prompt: str) -> None:
    """Type a prompt and send it."""
    terminal.type(prompt)
    terminal.rest(0.05)
    terminal.type(program.submit)


def empty_composer(terminal: PseudoTerminal) -> None:
    """Delete the typed text."""
    terminal.rest(0.5)
    terminal.type("\x15")
    terminal.rest(0.5)


def press_keys(terminal: PseudoTerminal, letters: str, pause: float) -> list[float]:
    """Seconds from each key to its letter on the terminal; a key that is lost counts ten."""
    generator = random.Random(SEED)
    waits: list[float] = []
    until = time.perf_counter() + MOST_SECONDS
    for letter in letters:
        if time.perf_counter() > until:
            break  # the keys measured so far are enough
        wait = terminal.press_and_wait(letter)
        waits.append(10.0 if wait is None else wait)
        if waits.count(10.0) > MOST_LOST:
            raise RuntimeError(f"its keys are lost; the screen:\n{terminal.text}")
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
    asked_at = time.perf_counter()
    while len(daemon.sent("first")) == before:
        terminal.rest(0.01)
        if time.perf_counter() - asked_at > PATIENCE:
            raise RuntimeError(f"it never asked; the screen:\n{terminal.text}")
    terminal.rest(0.5)
    start, bytes_before, cpu_before = time.perf_counter(), terminal.bytes_read, None
    cpu_before = terminal.cpu_seconds()
    seconds = 0.6 * tokens / rate
    keys = press_keys(terminal, letters, seconds / len(letters)) if letters else []
    terminal.rest(0 if letters else seconds)
    elapsed = time.perf_counter() - start
    cpu = (terminal.cpu_seconds() - cpu_before) / elapsed
    written = (terminal.bytes_read - bytes_before) / elapsed
    painted = terminal.wait_for_bytes(LAST.encode(), 60)
    sent = daemon.sent("last")
    figures: Figures = {"tokens_a_second": rate, "tokens": tokens}
    if keys:
        figures["keys"] = summary(keys)
    if painted is not None and len(sent):
        figures["last_token_ms"] = round((painted - sent[-1]) * 1000, 1)
    return figures | {
        "cpu_percent": round(cpu * 100, 1),
        "kilobytes_a_second": round(written / 1000, 1),
    }


def measure_idle(terminal: PseudoTerminal, seconds: float) -> float:
    """Return the percentage of one core used while idle."""
    terminal.settle(1.0)
    before, start = terminal.cpu_seconds(), time.perf_counter()
    terminal.rest(seconds)
    return (terminal.cpu_seconds() - before) / (time.perf_counter() - start) * 100
