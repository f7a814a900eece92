from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingle.tui.terminal import clipboard

LOCAL = {"DISPLAY": ":0"}
FAR = {"SSH_CONNECTION": "1 2 3 4"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the order is that of Linux")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, but for the shell's own tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/nowhere")
    return folder


def add(folder: Path, name: str, script: str) -> Path:
    """Put a program there; it writes what it is given to the returned file."""
    target = folder / f"{name}.txt"
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script.format(target=target)}\n")
    program.chmod(0o755)
    return target


TAKES = "/bin/cat > {target}"


def test_a_local_program_takes_the_text_and_is_named(programs: Path) -> None:
    target = add(programs, "xclip", TAKES)
    copied = clipboard.copy("grüße", LOCAL)
    assert copied == clipboard.Copied("Copied (xclip).")
    assert target.read_text() == "grüße"


def test_the_next_program_is_tried_when_one_fails(programs: Path) -> None:
    add(programs, "xclip", "exit 1")
    target = add(programs, "xsel", TAKES)
    assert clipboard.copy("word", LOCAL).sentence == "Copied (xsel)."
    assert target.read_text() == "word"


def test_a_program_that_hangs_is_given_up(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "TIMEOUT", 0.05)
    add(programs, "xclip", "exec /bin/sleep 5")
    copied = clipboard.copy("word", LOCAL)
    assert copied.sequence
    assert copied.sequence == "\x1b]52;c;d29yZA==\x07"


def test_a_program_that_stays_behind_does_not_hold_the_copy_up(programs: Path) -> None:
    target = add(programs, "xclip", "/bin/cat > {target}; (exec /bin/sleep 1) &")
    assert not clipboard.copy("word", LOCAL).sequence
    assert target.read_text() == "word"


def test_wayland_comes_before_x11(programs: Path) -> None:
    add(programs, "wl-copy", TAKES)
    add(programs, "xclip", TAKES)
    names = [program.name for program in clipboard.writers(LOCAL | {"WAYLAND_DISPLAY": "w"})]
    assert names == ["wl-copy", "xclip"]


def test_windows_under_linux_gets_utf_16(programs: Path) -> None:
    target = add(programs, "clip.exe", TAKES)
    assert not clipboard.copy("ä", {"WSL_DISTRO_NAME": "Debian"}).sequence
    assert target.read_bytes() == "ä".encode("utf-16-le")


def test_over_ssh_the_far_machines_clipboard_is_left_alone(programs: Path) -> None:
    add(programs, "xclip", TAKES)
    copied = clipboard.copy("word", FAR | LOCAL)
    assert copied.sentence == "Sent to the terminal, which does not confirm it (OSC 52)."
    assert copied.sequence


def test_over_ssh_in_tmux_tmux_takes_it(programs: Path) -> None:
    target = add(programs, "tmux", 'echo "$@" > {target}; /bin/cat >> {target}')
    copied = clipboard.copy("word", FAR | {"TMUX": "/tmp/tmux,1,0"})
    assert not copied.sequence
    assert "tmux" in copied.sentence
    assert target.read_text() == "load-buffer -w -\nword"


def test_the_limit_of_the_terminal_is_told() -> None:
    copied = clipboard.copy("x" * 80_000, FAR)
    assert "80 kB" in copied.sentence
    assert "75 kB" in copied.sentence


def test_gnu_screen_gets_the_sequence_in_pieces() -> None:
    sequence = clipboard.osc_52("word " * 40, {"STY": "1.pts"})
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", sequence, re.DOTALL)
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= clipboard.SCREEN_CHUNK
    inner = "".join(pieces)
    assert inner.startswith("\x1b]52;c;")
    assert base64.b64decode(inner[7:-1]) == b"word " * 40


def test_half_a_character_does_not_break_the_copy() -> None:
    assert clipboard.copy("a\ud800b", FAR).sequence


def test_paste_reads_what_a_program_gives(programs: Path) -> None:
    add(programs, "xclip", "printf 'one\\ntwo'")
    assert clipboard.paste(LOCAL) == "one\ntwo"


def test_paste_says_where_nothing_can_read(programs: Path) -> None:
    assert clipboard.paste(LOCAL) is None


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real tmux server of its own, and the environment inside of it."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    socket = tmp_path / "t"
    env = {key: value for key, value in os.environ.items() if key != "TMUX"} | {"TERM": "xterm"}
    command = [program, "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*command, "new-session", "-d", "/bin/sleep 60"], env=env, check=True)
    yield {"TMUX": f"{socket},1,0"}
    subprocess.run([*command, "kill-server"], env=env, check=False)


def test_a_real_tmux_takes_and_gives_the_text(
    tmux: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", tmux["TMUX"])
    text = "two lines\nof grüße 漢字"
    assert not clipboard.copy(text, FAR | tmux).sequence
    assert clipboard.paste(FAR | tmux) == text
