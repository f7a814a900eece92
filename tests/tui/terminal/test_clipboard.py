"""The clipboard: local programs, OSC 52, tmux, GNU Screen, SSH and WSL."""

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
SSH = {"SSH_CONNECTION": "1 2 3 4"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the order is that of Linux")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/nowhere")
    return folder


def add_program(folder: Path, name: str, script: str) -> Path:
    """Add a program to the folder; its script can write to the returned file."""
    target = folder / f"{name}.txt"
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script.format(target=target)}\n")
    program.chmod(0o755)
    return target


COPY_STDIN = "/bin/cat > {target}"


def test_copy_uses_and_names_a_local_program(programs: Path) -> None:
    target = add_program(programs, "xclip", COPY_STDIN)
    copied = clipboard.copy("grüße", LOCAL)
    assert copied == clipboard.Copied("Copied (xclip).")
    assert target.read_text() == "grüße"


def test_copy_falls_back_to_the_next_program(programs: Path) -> None:
    add_program(programs, "xclip", "exit 1")
    target = add_program(programs, "xsel", COPY_STDIN)
    assert clipboard.copy("word", LOCAL).sentence == "Copied (xsel)."
    assert target.read_text() == "word"


def test_copy_falls_back_to_osc_52_if_the_program_hangs(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "TIMEOUT", 0.05)
    add_program(programs, "xclip", "exec /bin/sleep 5")
    copied = clipboard.copy("word", LOCAL)
    assert copied.sequence
    assert copied.sequence == "\x1b]52;c;d29yZA==\x07"


def test_copy_does_not_wait_for_background_processes(programs: Path) -> None:
    target = add_program(programs, "xclip", "/bin/cat > {target}; (exec /bin/sleep 1) &")
    assert not clipboard.copy("word", LOCAL).sequence
    assert target.read_text() == "word"


def test_wayland_is_preferred_to_x11(programs: Path) -> None:
    add_program(programs, "wl-copy", COPY_STDIN)
    add_program(programs, "xclip", COPY_STDIN)
    names = [program.name for program in clipboard.writers(LOCAL | {"WAYLAND_DISPLAY": "w"})]
    assert names == ["wl-copy", "xclip"]


def test_wsl_clipboard_gets_utf_16(programs: Path) -> None:
    target = add_program(programs, "clip.exe", COPY_STDIN)
    assert not clipboard.copy("ä", {"WSL_DISTRO_NAME": "Debian"}).sequence
    assert target.read_bytes() == "ä".encode("utf-16-le")


def test_copy_over_ssh_uses_osc_52(programs: Path) -> None:
    add_program(programs, "xclip", COPY_STDIN)
    copied = clipboard.copy("word", SSH | LOCAL)
    assert copied.sentence == "Sent to the terminal, which does not confirm it (OSC 52)."
    assert copied.sequence


def test_copy_over_ssh_in_tmux_uses_tmux(programs: Path) -> None:
    target = add_program(programs, "tmux", 'echo "$@" > {target}; /bin/cat >> {target}')
    copied = clipboard.copy("word", SSH | {"TMUX": "/tmp/tmux,1,0"})
    assert not copied.sequence
    assert "tmux" in copied.sentence
    assert target.read_text() == "load-buffer -w -\nword"


def test_terminal_size_limit_is_reported() -> None:
    copied = clipboard.copy("x" * 80_000, SSH)
    assert "80 kB" in copied.sentence
    assert "75 kB" in copied.sentence


def test_osc_52_is_split_for_gnu_screen() -> None:
    sequence = clipboard.osc_52("word " * 40, {"STY": "1.pts"})
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", sequence, re.DOTALL)
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= clipboard.SCREEN_CHUNK
    inner = "".join(pieces)
    assert inner.startswith("\x1b]52;c;")
    assert base64.b64decode(inner[7:-1]) == b"word " * 40


def test_lone_surrogate_can_be_copied() -> None:
    assert clipboard.copy("a\ud800b", SSH).sequence


def test_paste_reads_from_a_program(programs: Path) -> None:
    add_program(programs, "xclip", "printf 'one\\ntwo'")
    assert clipboard.paste(LOCAL) == "one\ntwo"


def test_paste_without_a_program_gives_none(programs: Path) -> None:
    assert clipboard.paste(LOCAL) is None


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A separate tmux server; gives the environment inside of it."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    socket = tmp_path / "t"
    env = {key: value for key, value in os.environ.items() if key != "TMUX"} | {"TERM": "xterm"}
    command = [program, "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*command, "new-session", "-d", "/bin/sleep 60"], env=env, check=True)
    yield {"TMUX": f"{socket},1,0"}
    subprocess.run([*command, "kill-server"], env=env, check=False)


def test_copy_and_paste_through_tmux(tmux: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", tmux["TMUX"])
    text = "two lines\nof grüße 漢字"
    assert not clipboard.copy(text, SSH | tmux).sequence
    assert clipboard.paste(SSH | tmux) == text
