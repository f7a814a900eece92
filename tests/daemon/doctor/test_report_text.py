"""The doctor's printed report for recorded machines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import msgspec
import pytest

from ingle.daemon.doctor.diagnose import diagnose
from ingle.daemon.doctor.report_text import fold_command, report_text
from ingle.daemon.doctor.system_state import SystemState
from ingle.daemon.terminal.terminal_colors import TerminalColors

pytestmark = pytest.mark.quick

ReadSituation = Callable[[str], SystemState]
PLAIN = TerminalColors(enabled=False)


def render(situation: SystemState, columns: int = 80, paint: TerminalColors = PLAIN) -> str:
    return report_text(diagnose(situation), columns=columns, paint=paint)


def test_report_fits_80_columns(
    machines: dict[str, bytes], read_recorded_state: ReadSituation
) -> None:
    for name in machines:
        lines = render(read_recorded_state(name)).splitlines()
        assert max(map(len, lines)) <= 80, name
        assert not any(line.endswith(" ") for line in lines)


def test_report_lists_gpu_memory_of_other_programs(read_recorded_state: ReadSituation) -> None:
    text = render(read_recorded_state("rtx-4090-game"))
    assert "NVIDIA GeForce RTX 4090 · 25.8 GB, 9.7 GB free" in text
    assert "1008 GB/s · compute capability 8.9 · driver 580.95.05, CUDA 13.0" in text
    assert "held by Cyberpunk2077.exe 9.4 GB, ollama 5.4 GB, python 1.1 GB" in text
    assert "Checks: 2 to look at" in text
    assert "running as process 9100, ingle 0.1.0" in text


def test_report_without_findings(read_recorded_state: ReadSituation) -> None:
    text = render(read_recorded_state("server-without-gpu"))
    assert "Checks: all is well" in text
    assert "graphics    none" in text


def test_colors_do_not_change_the_text(read_recorded_state: ReadSituation) -> None:
    situation = read_recorded_state("small-container")
    coloured = render(situation, paint=TerminalColors(enabled=True))
    assert "\x1b[31m✗\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == render(situation)


def test_escape_sequences_in_names_are_removed(read_recorded_state: ReadSituation) -> None:
    situation = read_recorded_state("amd-igpu")
    gpu = msgspec.structs.replace(situation.machine.gpus[0], name="A\x1b]0;owned\x07B")
    port = msgspec.structs.replace(situation.port, program="no\x1b[2Jde")
    machine = msgspec.structs.replace(situation.machine, gpus=[gpu])
    text = render(msgspec.structs.replace(situation, machine=machine, port=port))
    assert "A]0;ownedB" in text
    assert "no[2Jde" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("width", [30, 40, 74, 200])
def test_folded_command_is_equivalent_in_the_shell(width: int) -> None:
    command = 'CMAKE_ARGS="-DGGML_CUDA=on" ~/venv/bin/python -m pip install --no-deps x==1'
    lines = fold_command(command, width)
    joined = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(joined) == shlex.split(command)
    assert max(map(len, lines)) <= width
    assert (len(lines) == 1) == (width >= len(command))


def test_folded_powershell_command_uses_backticks() -> None:
    lines = fold_command('$env:CMAKE_ARGS="-DA=on"; & python.exe -m pip install a b c', 40)
    assert all(line.endswith(" `") for line in lines[:-1])
