"""Clipboard access through programs, or through the terminal's OSC 52 sequence."""

from __future__ import annotations

import base64
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..text import number_format
from .run_program import run_program

TIMEOUT = 2.0
"""Seconds before a hanging program is abandoned."""
OSC_52_LIMIT = 74_994
"""Bytes that every common terminal accepts; xterm's limit is 100 000 characters of base64."""
SCREEN_CHUNK = 76
"""Most characters that GNU screen passes on in one string; it drops longer ones."""

Which = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that writes or reads the clipboard; `encoding` is that of its data."""

    name: str
    arguments: tuple[str, ...]
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy as a sentence; `sequence` must still be written to the terminal."""

    sentence: str
    sequence: str = ""


_WRITERS = {
    "wl-copy": Program("wl-copy", ()),
    "xclip": Program("xclip", ("-selection", "clipboard", "-in")),
    "xsel": Program("xsel", ("--clipboard", "--input")),
    "pbcopy": Program("pbcopy", ()),
    "clip.exe": Program("clip.exe", (), "utf-16-le"),
    "tmux": Program("tmux", ("load-buffer", "-w", "-")),
}
_POWERSHELL = (
    "-NoProfile",
    "-Command",
    "[Console]::OutputEncoding=[Text.Encoding]::UTF8;Get-Clipboard -Raw",
)
_READERS = {
    "wl-copy": Program("wl-paste", ("--no-newline",)),
    "xclip": Program("xclip", ("-selection", "clipboard", "-out")),
    "xsel": Program("xsel", ("--clipboard", "--output")),
    "pbcopy": Program("pbpaste", ()),
    "clip.exe": Program("powershell.exe", _POWERSHELL),
    "tmux": Program("tmux", ("save-buffer", "-")),
}

_PICTURE_READERS = {
    "wl-copy": Program("wl-paste", ("--type", "image/png")),
    "xclip": Program("xclip", ("-selection", "clipboard", "-target", "image/png", "-out")),
    "pbcopy": Program("pngpaste", ("-",)),
}


def is_remote(env: Mapping[str, str]) -> bool:
    """Return whether the terminal is on another machine (SSH)."""
    return any(name in env for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def copy(text: str, env: Mapping[str, str] | None = None, which: Which = shutil.which) -> Copied:
    """Copy `text` by the first method that works; blocks up to a few seconds.

    If no program took it, the result carries the terminal sequence (OSC 52).
    """
    env = os.environ if env is None else env
    content = text.encode("utf-8", "replace").decode()
    for program in writers(env, which):
        command = (program.name, *program.arguments)
        if run_program(command, TIMEOUT, sent=content.encode(program.encoding)) is not None:
            done = f"Copied ({program.name})."
            if program.name == "tmux":
                done = "Copied (tmux buffer, which tmux passes on where set-clipboard allows it)."
            return Copied(done)
    sequence = osc_52(content, env)
    size = len(content.encode())
    if size > OSC_52_LIMIT:
        limit = number_format.size(OSC_52_LIMIT)
        sentence = (
            f"Sent {number_format.size(size)} to the terminal (OSC 52). Many terminals take no "
            f"more than {limit}, and none confirms it."
        )
    else:
        sentence = "Sent to the terminal, which does not confirm it (OSC 52)."
    return Copied(sentence, sequence)


def paste(env: Mapping[str, str] | None = None, which: Which = shutil.which) -> str | None:
    """Return the clipboard's text, None if no program can read it; blocks up to a few seconds."""
    env = os.environ if env is None else env
    for program in readers(env, which):
        read = run_program((program.name, *program.arguments), TIMEOUT)
        if read is not None:
            return read.decode(program.encoding, "replace")
    return None


def paste_picture(env: Mapping[str, str] | None = None, which: Which = shutil.which) -> bytes:
    """Return the clipboard's picture as a PNG file, b"" without one; blocks up to a few seconds."""
    env = os.environ if env is None else env
    for program in picture_readers(env, which):
        read = run_program((program.name, *program.arguments), TIMEOUT)
        if read:
            return read
    return b""


def picture_readers(env: Mapping[str, str], which: Which = shutil.which) -> list[Program]:
    """Return the programs that can read a picture from the clipboard here."""
    return _programs(env, which, _PICTURE_READERS)


def writers(env: Mapping[str, str], which: Which = shutil.which) -> list[Program]:
    """Return the programs that can copy here, in the order in which they are tried."""
    return _programs(env, which, _WRITERS)


def readers(env: Mapping[str, str], which: Which = shutil.which) -> list[Program]:
    """Return the programs that can read the clipboard here, in the order of trial."""
    return _programs(env, which, _READERS)


def _programs(env: Mapping[str, str], which: Which, known: Mapping[str, Program]) -> list[Program]:
    # Over SSH the remote clipboard is not the user's own: only tmux helps.
    names = [] if is_remote(env) else _local(env)
    if "TMUX" in env:
        names.append("tmux")
    return [known[name] for name in names if name in known and which(known[name].name) is not None]


def _local(env: Mapping[str, str]) -> list[str]:
    if sys.platform == "darwin":
        return ["pbcopy"]
    if sys.platform == "win32":
        return ["clip.exe"]
    names = ["wl-copy"] if "WAYLAND_DISPLAY" in env else []
    if "DISPLAY" in env:
        names += ["xclip", "xsel"]
    if "WSL_DISTRO_NAME" in env or "microsoft" in platform.release().lower():
        names.append("clip.exe")
    return names


def osc_52(text: str, env: Mapping[str, str]) -> str:
    """Return the sequence that asks the terminal to copy `text`, wrapped for GNU screen if
    needed.
    """
    content = base64.b64encode(text.encode()).decode()
    sequence = f"\x1b]52;c;{content}\x07"
    if "STY" not in env:
        return sequence
    chunks = [sequence[at : at + SCREEN_CHUNK] for at in range(0, len(sequence), SCREEN_CHUNK)]
    return "".join(f"\x1bP{chunk}\x1b\\" for chunk in chunks)
