"""The chat program in a pseudo-terminal with an emulated screen: start, signals, and colours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import OpenTerminal

COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
RICH_COLOUR = re.compile(rb"\x1b\[[0-9;]*[34]8;[0-9;]*m")

# The import of Textual waits for a file, so that the time before it can be tested.
PROGRAM = """
import sys, time
from pathlib import Path
from ingle.tui.main import run_chat

gate = Path(sys.argv[1])

class Gate:
    def find_spec(self, name, path=None, target=None):
        while name == "textual" and not gate.exists():
            time.sleep(0.005)

def start_daemon():
    raise OSError("No daemon here.")

sys.meta_path.insert(0, Gate())
sys.exit(run_chat(socket_path=str(gate) + ".sock", start_daemon=start_daemon))
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def arguments(tmp_path: Path, gate: Path) -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return [sys.executable, "-P", str(program), str(gate)]


@pytest.mark.parametrize(
    "size",
    [(80, 32), *(pytest.param(size, marks=pytest.mark.slow) for size in ((80, 24), (130, 32)))],
)
def test_first_frame_precedes_textual_and_keeps_type_ahead(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path, size: tuple[int, int]
) -> None:
    # A shell may export its size, which may be outdated.
    with open_terminal(arguments, size, COLUMNS="60", LINES="20") as terminal:
        terminal.until(lambda screen: "╰" in screen and "○ starting" in screen)
        first_frame = terminal.text.split("\n")
        terminal.type("typed early")
        gate.touch()
        terminal.until(lambda screen: "typed early" in screen)
        terminal.until(lambda screen: "No daemon here." in screen)
        live = terminal.text.split("\n")
        assert [line.find("╭") for line in live] == [line.find("╭") for line in first_frame]
        assert live[0].startswith(" ingle")
        assert first_frame[0].startswith(" ingle")
        terminal.type("\x11")
        assert terminal.wait() == 0
        assert terminal.is_restored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_before_textual_restores_the_terminal(
    open_terminal: OpenTerminal, arguments: list[str], number: signal.Signals, status: int
) -> None:
    with open_terminal(arguments) as terminal:
        terminal.until(lambda screen: "○ starting" in screen)
        assert not terminal.is_restored
        os.kill(terminal.pid, number)
        assert terminal.wait() == status
        assert terminal.is_restored


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_signal_restores_the_terminal(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path, number: signal.Signals
) -> None:
    gate.touch()
    with open_terminal(arguments) as terminal:
        terminal.until(lambda screen: "No daemon here." in screen)
        os.kill(terminal.pid, number)
        assert terminal.wait() == 0
        assert terminal.is_restored


def test_no_color_disables_colours(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path
) -> None:
    gate.touch()
    with open_terminal(arguments, NO_COLOR="1") as terminal:
        terminal.until(lambda screen: "No daemon here." in screen)
        terminal.type("text")
        terminal.until(lambda screen: "text" in screen)
        assert not COLOUR.search(terminal.raw), COLOUR.findall(terminal.raw)


def test_sixteen_colour_terminal_gets_ansi_colours(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path
) -> None:
    gate.touch()
    with open_terminal(arguments, TERM="xterm", COLORTERM="") as terminal:
        terminal.until(lambda screen: "No daemon here." in screen)
        assert COLOUR.search(terminal.raw)
        assert not RICH_COLOUR.search(terminal.raw), RICH_COLOUR.findall(terminal.raw)


def test_switching_between_truecolor_and_sixteen_colour_themes(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path
) -> None:
    gate.touch()
    with open_terminal(arguments) as terminal:
        terminal.until(lambda screen: "No daemon here." in screen)
        start = len(terminal.raw)
        terminal.type("/theme ingle-16\r")
        terminal.until(lambda _: b"33;49m" in terminal.raw[start:])
        start = len(terminal.raw)
        terminal.type("sixteen")
        terminal.until(lambda screen: "sixteen" in screen)
        assert not RICH_COLOUR.search(terminal.raw[start:])
        terminal.type("\x15")
        terminal.until(lambda screen: "sixteen" not in screen)
        terminal.type("/theme ingle-light\r")
        terminal.until(lambda _: b"48;2;250;246;239" in terminal.raw[start:])


def test_light_terminal_has_a_light_first_frame(
    open_terminal: OpenTerminal, arguments: list[str]
) -> None:
    with open_terminal(arguments, COLORFGBG="0;15") as terminal:
        terminal.until(lambda screen: "○ starting" in screen)
        assert b"48;2;250;246;239" in terminal.raw


def test_tiny_terminal_accepts_input(
    open_terminal: OpenTerminal, arguments: list[str], gate: Path
) -> None:
    with open_terminal(arguments, size=(40, 12)) as terminal:
        terminal.until(lambda screen: "○ starting" in screen)
        gate.touch()
        terminal.type("text")
        terminal.until(lambda screen: "text" in screen)


def test_missing_terminal_exits_with_an_error(arguments: list[str], gate: Path) -> None:
    gate.touch()
    result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert result.returncode == 2
    assert "The chat needs a terminal, and the input is not one." in result.stderr
    assert "ingle run" in result.stderr
    assert result.stdout == ""


def test_dumb_terminal_exits_with_an_error(
    open_terminal: OpenTerminal, arguments: list[str]
) -> None:
    with open_terminal(arguments, TERM="dumb") as terminal:
        assert terminal.wait() == 2
        assert "TERM is `dumb`" in terminal.text
        assert b"\x1b" not in terminal.raw


def test_harness_detects_an_unrestored_terminal(open_terminal: OpenTerminal) -> None:
    with open_terminal([sys.executable, "-c", "import tty; tty.setraw(0)"]) as terminal:
        assert terminal.wait() == 0
        assert not terminal.is_restored
        assert termios.tcgetattr(terminal.fd)


def test_garbage_is_collected_once_the_screen_is_there(
    open_terminal: OpenTerminal, tmp_path: Path, gate: Path
) -> None:
    wait = (
        "    import gc\n    while not gc.isenabled():\n        time.sleep(0.005)\n    raise OSError"
    )
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("    raise OSError", wait))
    gate.touch()
    with open_terminal([sys.executable, "-P", str(program), str(gate)], (80, 24)) as terminal:
        terminal.until(lambda screen: "No daemon here." in screen)


def test_chat_imports_nothing_that_its_first_screen_does_not_need() -> None:
    code = (
        "import sys, ingle.tui.app.chat_app, ingle.tui.session.chat_client\n"
        "heavy = {'h11', 'httpx', 'psutil', 'http.client', 'importlib.metadata', 'sqlite3',"
        " 'secrets', 'ingle.tui.commands.chat_session', 'ingle.tui.gauges.gauge_state',"
        " 'ingle.tui.chats.automatic_title', 'ingle.tui.features.program_feature'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd="/", check=True
    )
    assert result.stdout.strip() == "[]"
