"""`ingle completion`: scripts for shells, and the names that they ask for."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from ingle.daemon.cli.server.completion import completion_script
from ingle.daemon.main import COMMANDS, main
from ingle.daemon.settings.paths import Paths

Capture = pytest.CaptureFixture[str]

COMPLETE = """
ingle() { printf '%s\\n' smollm2:135m smollm2:360m qwen3:4b; }
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ingle ingle "$3" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_names_are_printed_without_starting_a_daemon(paths: Paths, capsys: Capture) -> None:
    assert main(["completion", "models"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not paths.socket.exists()


def test_names_of_models_are_printed(daemon: Any, capsys: Capture) -> None:
    assert main(["completion", "models"]) == 0
    assert capsys.readouterr().out == "smollm2:135m\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "words", "current", "found"),
    [
        ("ingle qua", "ingle qua", "qua", ["quantize"]),
        ("ingle show q", "ingle show q", "q", ["qwen3:4b"]),
        ("ingle show smollm2:1", "ingle show smollm2 : 1", "1", ["135m"]),
        ("ingle show smollm2:", "ingle show smollm2 :", "", ["135m", "360m"]),
        ("ingle ps s", "ingle ps s", "s", [""]),
    ],
)
def test_bash_completes_commands_and_names(
    line: str, words: str, current: str, found: list[str]
) -> None:
    script = completion_script("bash") + COMPLETE
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", line, words, current],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split("\n")[:-1], done.stderr) == (found, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid_and_name_every_command(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert set(COMMANDS) <= set(re.findall(r"[a-z-]+", script))
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)
