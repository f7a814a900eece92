"""Other chats of the terminal beside ingle, in the same minutes and with the same answers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import cast

from chat_measures import (
    ALTERNATE_SCREEN,
    Figures,
    measure_idle,
    measure_stream,
    press_keys,
    summary,
)
from chat_peers import NOT_MEASURED, make_peers
from chat_program import ChatProgram, ScriptedDaemon
from cpu_meter import CpuMeter
from kept_chats import kept_turns
from machine import median
from pseudo_terminal import LETTERS, PseudoTerminal

TYPED_AHEAD = "ДЖЗИЙ"
_GIVEN = ("count", "tokens", "tokens_a_second", "messages")
PROBE = "Ю"
"""Typed once the composer is ready: earlier keys that were kept appear to its left."""
PATIENCE = 60.0
"""Seconds for a program to start."""
STREAM = {"tokens": 1500, "rate": 200}
EARLIER = 500
"""Messages of the chat that those get which can be given one."""


def compare(
    ingle: ChatProgram,
    daemon: ScriptedDaemon,
    *,
    rounds: int,
    idle: float,
    names: Sequence[str] = (),
) -> Figures:
    """Rounds in which each program runs once, ingle first; `names` are the peers, all if empty.

    Each runs in a new chat, and those that take one again also in a chat of `EARLIER` messages.
    """
    failed: dict[str, str] = dict(NOT_MEASURED)
    programs = [ingle, *_ready_peers(ingle, names, failed)]
    runs: dict[str, list[Figures]] = {program.name: [] for program in programs}
    meter = CpuMeter([])
    for number in range(rounds):
        for program in programs:
            if program.name in failed:
                continue
            print(f"round {number + 1}: {program.name}", file=sys.stderr, flush=True)
            try:
                runs[program.name].append(measure_program(program, daemon, idle))
            except (OSError, RuntimeError) as error:
                failed[program.name] = str(error)
    figures: Figures = {"rounds": rounds, "foreign_cpu_share": round(meter.foreign_share(), 3)}
    figures["failed_behind_earlier_messages"] = sorted(
        {name for name, told in runs.items() for run in told if "failed" in _kept(run)}
    )
    ours = runs.pop(ingle.name)
    figures["ingle"] = _medians(ours)
    for name, theirs in runs.items():
        if len(theirs) == len(ours) and ours:
            figures[name] = {"peer": _medians(theirs), "times_ours": ratios(ours, theirs)}
    figures["not_measured"] = failed
    return figures


def _ready_peers(
    ingle: ChatProgram, names: Sequence[str], failed: dict[str, str]
) -> list[ChatProgram]:
    """The peers that are installed, set up, and have been started once."""
    ready: list[ChatProgram] = []
    for peer in make_peers(ingle.folder.parent, ingle.port):
        if names and peer.name not in names:
            continue
        try:
            peer.prepare()
            _start(peer)  # the setup of a first run does not count
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            failed[peer.name] = str(error)
        else:
            ready.append(peer)
    return ready


def _start(program: ChatProgram) -> None:
    with program.running() as terminal:
        _wait_until_usable(program, terminal)
        terminal.rest(1.0)


def measure_program(program: ChatProgram, daemon: ScriptedDaemon, idle: float) -> Figures:
    """Its start, keys while nothing happens and while an answer streams in, memory, idle CPU."""
    figures: Figures = {"keys_kept_of_5": keys_kept(program)}
    with program.running() as terminal:
        first = terminal.wait_for_screen(lambda screen: _is_own(program, terminal, screen), 20)
        usable = _wait_until_usable(program, terminal)
        figures["first_frame_ms"] = _since_start(terminal, first or usable)
        figures["ready_ms"] = _since_start(terminal, usable)
        program.open_chat(terminal)
        terminal.settle(1.0, 10)
        figures["idle_cpu_percent"] = round(measure_idle(terminal, idle), 2)
        figures["idle_keys"] = summary(press_keys(terminal, LETTERS[:20], 0.1))
        terminal.type("\x7f" * 20)
        terminal.rest(1.0)
        letters = LETTERS[20:50] if program.takes_keys_while_answering else ""
        figures["stream"] = measure_stream(program, terminal, daemon, letters=letters, **STREAM)
        figures["memory_mb"] = round(terminal.memory(), 1)
        _leave_nothing(terminal)
    kept = program.keep_turns(kept_turns(EARLIER))
    if kept is not None and program.takes_keys_while_answering:
        try:
            figures["kept"] = measure_kept(program, kept, daemon)
        except RuntimeError as error:
            figures["kept"] = {"messages": EARLIER, "failed": str(error)}
    return figures


def measure_kept(program: ChatProgram, command: Sequence[str], daemon: ScriptedDaemon) -> Figures:
    """Measure keys in a chat with earlier messages, and its resource use."""
    with program.running(command) as terminal:
        _wait_until_usable(program, terminal)
        program.open_kept(terminal)
        terminal.settle(1.0, 20)
        figures: Figures = {"messages": EARLIER}
        figures["idle_keys"] = summary(press_keys(terminal, LETTERS[:20], 0.1))
        terminal.type("\x7f" * 20)
        terminal.rest(1.0)
        figures["stream"] = measure_stream(
            program, terminal, daemon, letters=LETTERS[20:50], **STREAM
        )
        figures["memory_mb"] = round(terminal.memory(), 1)
        _leave_nothing(terminal)
    return figures


def keys_kept(program: ChatProgram) -> int:
    """How many of five keys that are typed while it starts are in its composer in the end."""
    with program.running() as terminal:
        for key in TYPED_AHEAD:
            terminal.type(key)
            terminal.rest(0.01)
        # A composer with something in it may not look like an empty one.
        terminal.wait_for_screen(
            lambda screen: (
                _is_own(program, terminal, screen)
                and (program.can_be_typed_in(screen) or TYPED_AHEAD in screen)
            ),
            PATIENCE / 2,
        )
        terminal.settle(0.5, 5)
        if terminal.ended:
            return 0
        terminal.type(PROBE)
        terminal.settle(0.5, 5)
        found = re.findall(f"([{TYPED_AHEAD}]*){PROBE}", terminal.text)
        _leave_nothing(terminal)
        return max(map(len, found), default=0)


def _leave_nothing(terminal: PseudoTerminal) -> None:
    """Delete the typed text, and wait, since a draft may be restored at the next start."""
    terminal.type("\x7f" * 40)
    terminal.rest(1.5)


def _wait_until_usable(program: ChatProgram, terminal: PseudoTerminal) -> float:
    """When its composer was on the screen."""
    usable = terminal.wait_for_screen(
        lambda screen: _is_own(program, terminal, screen) and program.can_be_typed_in(screen),
        PATIENCE,
    )
    if usable is None:
        raise RuntimeError(f"it never took keys; its screen:\n{terminal.text}")
    return usable


def _is_own(program: ChatProgram, terminal: PseudoTerminal, screen: str) -> bool:
    """Return whether the screen shows the program, and not an echo of the terminal."""
    if program.whole_screen and ALTERNATE_SCREEN not in terminal.raw:
        return False
    return bool(screen.translate({ord(key): None for key in TYPED_AHEAD}).strip())


def _since_start(terminal: PseudoTerminal, at: float) -> float:
    return round((at - terminal.started) * 1000, 1)


def _kept(run: Figures) -> Figures:
    kept = run.get("kept")
    return cast("Figures", kept) if isinstance(kept, dict) else {}


def _medians(runs: Sequence[Figures]) -> dict[str, float]:
    """The median of each figure of several runs."""
    flats = [flat(run) for run in runs]
    names = flats[0] if flats else {}
    return {
        name: round(median([run[name] for run in flats]), 2)
        for name in names
        if all(name in run for run in flats)
    }


def ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> dict[str, float]:
    """How many times ours each figure of a peer is: the median of the rounds' ratios."""
    pairs = [(flat(a), flat(b)) for a, b in zip(ours, theirs, strict=True)]
    return {
        name: round(median([b[name] / a[name] for a, b in pairs]), 2)
        for name in pairs[0][0]
        if name != "keys_kept_of_5" and all(a.get(name) and b.get(name) for a, b in pairs)
    }


def flat(figures: Figures, before: str = "") -> dict[str, float]:
    """The medians and single figures, by their whole names."""
    numbers: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            numbers |= flat(value, f"{before}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, (int, float)) and name not in _GIVEN:
            numbers[before + name] = float(value)
    return numbers
