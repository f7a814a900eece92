"""Escape sequences in answers, model metadata and daemon messages do not reach the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest

from ingle.daemon.terminal.terminal_output import (
    format_table,
    print_fields,
    print_json,
    strip_control_characters,
)
from ingle.daemon.terminal.unsafe_characters import UNSAFE, EscapeFilter, with_colours_only

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
SEQUENCES = [
    *(f"{ESC}]52;c;cm0gLXJmIH4={end}" for end in (BEL, ST)),  # the clipboard
    *(f"{ESC}]{number};owned{BEL}" for number in (0, 1, 2, 4, 7, 9, 10, 11, 12, 104, 133, 777)),
    f"{ESC}]8;;http://evil.example{ST}text{ESC}]8;;{ST}",  # a link
    f"{ESC}]1337;File=inline=1:AAAA{BEL}",
    f"{ESC}]50;SetProfile=x{BEL}",
    *(f"{ESC}[{code}" for code in ("2J", "3J", "H", "1;1H", "999A", "999D", "K", "2K", "s", "u")),
    *(f"{ESC}[{code}" for code in ("8m", "38;5;196m", "?25l", "?1049h", "?1000h", "?2004l", "!p")),
    *(f"{ESC}[{code}" for code in ("6n", "c", ">c", "=c", "5n", "21t", "18t", "0x", "?6c", ">q")),
    *(f"{ESC}[{code}" for code in ("20h", "4h", "2;5r", "5S", "99T", "3g", "10@", "10P", "10X")),
    f"{ESC}P+q544e{ST}",
    f"{ESC}P1$r0m{ST}",
    f"{ESC}P0;1;0q#0;2;0;0;0{ST}",  # sixel
    f"{ESC}^private{ST}",
    f"{ESC}_Gf=100;AAAA{ST}",  # kitty's pictures
    f"{ESC}Xstring{ST}",
    *(f"{ESC}{code}" for code in ("c", "7", "8", "D", "E", "M", "Z", "(0", "#8", "=", ">", "n")),
    "\x9b2J",
    "\x9d0;owned\x9c",
    "\x90q\x9c",
    "\x84\x85\x88\x8d\x8e\x8f\x98\x9e\x9f",
    *"\x00\x05\x07\x08\x0b\x0c\x0e\x0f\x11\x13\x18\x1a\x7f",
    "safe\rEVIL",
    "safe\x08\x08\x08\x08EVIL",
    "\u202egnp.exe\u202c",
    *(f"a{mark}b" for mark in "\u061c\u200e\u200f\u202a\u202b\u202d\u2066\u2067\u2068\u2069"),
    "\ufeff\ufff9x\ufffay\ufffb",
    "\U000e0041\U000e007f",
    "\u2028two\u2029lines",
    "\ud800",
]
ALL = "".join(SEQUENCES)
# Control characters that the commands write themselves: carriage return, line erase, colors.
OWN_SEQUENCES = re.compile(r"\r|\x1b\[K|\x1b\[\d{1,2}m")


def test_sequence_list_is_not_truncated() -> None:
    assert len(SEQUENCES) > 90


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_escape_sequences_are_stripped(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    sequence = SEQUENCES[number]
    hostile = f"before{sequence}after"
    assert not UNSAFE.search(strip_control_characters(hostile))
    assert not UNSAFE.search(with_colours_only(hostile).replace(ESC, ""))
    print_fields([("name", hostile)])
    print(format_table(("NAME",), [(hostile,)], columns=20))
    print_json({"name": hostile})
    shown = capsys.readouterr().out
    assert not UNSAFE.search(shown)
    assert json.loads(shown[shown.index("{") :]) == {"name": hostile}
    texts = {_filter_in_two(hostile, cut) for cut in range(len(hostile) + 1)}
    for text in texts:
        assert not UNSAFE.search(text)
        _assert_terminal_unchanged(text)


def _filter_in_two(text: str, cut: int) -> str:
    escapes = EscapeFilter()
    return escapes.feed(text[:cut]) + escapes.feed(text[cut:])


def _assert_terminal_unchanged(text: str) -> None:
    """Render the text with a terminal emulator and assert that its state is unchanged."""
    screen = pyte.Screen(80, 24)
    screen.title = "mine"
    pyte.Stream(screen).feed("top\r\n" + text)
    assert screen.title == "mine"
    assert screen.display[0].startswith("top")
    assert screen.buffer[1][0].fg == "default"
    assert screen.mode == pyte.Screen(80, 24).mode


def test_newline_in_a_table_cell_does_not_add_a_row() -> None:
    table = format_table(("NAME", "SIZE"), [("a\nError: call 555", "1")])
    assert table.count("\n") == 1


def test_own_color_sequences_are_kept() -> None:
    assert with_colours_only("\x1b[31mred\x1b[0m\x1b[2J") == "\x1b[31mred\x1b[0m[2J"


COMMANDS: Sequence[tuple[str, ...]] = (
    ("list", "--all"),
    ("show", "smollm2"),
    ("ps",),
    ("ps", "--json"),
    ("run", "smollm2", "Hi", "--verbose"),
    ("run", "smollm2", "Hi", "--json"),
    ("load", "smollm2"),
    ("unload",),
    ("rm", "smollm2", "--yes"),
    ("pull", "smollm2"),
    ("pull", "smollm2", "--json"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_sanitize_daemon_responses(
    daemon: Any, model_entry: Callable[..., Any], command: list[str], arguments: tuple[str, ...]
) -> None:
    return_escape_sequences(daemon, model_entry)
    assert_harmless(in_terminal([*command, *arguments]))


@pytest.mark.parametrize("arguments", COMMANDS[:6:4], ids=" ".join)
def test_commands_sanitize_error_messages(
    daemon: Any, command: list[str], arguments: tuple[str, ...]
) -> None:
    daemon.failure = (
        500,
        {"error": {"code": "broken", "message": f"It broke: {ALL}.", "hint": ALL}},
    )
    assert_harmless(in_terminal([*command, *arguments]))


@pytest.mark.parametrize("arguments", [("show",), ("run",), ("quantize",)])
def test_commands_sanitize_their_arguments(
    daemon: Any, tmp_path: Path, command: list[str], arguments: tuple[str, ...]
) -> None:
    """File names created by others, as completed by the shell."""
    name = ALL.replace("\0", "").replace("/", "").replace("\ud800", "")[:60]
    path = tmp_path / f"m{name}.gguf"
    path.write_bytes(b"GGUF")
    assert_harmless(in_terminal([*command, *arguments, str(path)]))


def return_escape_sequences(daemon: Any, model_entry: Callable[..., Any]) -> None:
    """Put all sequences into every string this daemon returns."""
    names = ("name", "quantization", "architecture", "licence", "description", "path", "place")
    arguments = {name: f"{name}{ALL}" for name in names}
    daemon.models = [
        model_entry(**arguments, same_as=ALL, notes=[ALL]),
        model_entry(**arguments, installed=False, default=False),
    ]
    daemon.unusable = [{"name": ALL, "place": ALL, "reason": ALL}]
    daemon.loaded = [loaded_model()]
    daemon.warnings = [ALL]
    daemon.removal = {"removed": ALL, "freed": 1, "keeps": [ALL], "place": ALL}
    daemon.answer.insert(1, ("delta", {"text": ALL, "tokens": 1}))
    progress = {"model": ALL, "status": ALL, "total": 10, "received": 5, "eta": 1.0}
    daemon.pull = [("progress", progress), ("failed", {"message": ALL, "hint": ALL, "code": "x"})]


def loaded_model() -> dict[str, Any]:
    """A loaded model as returned to `ps`, with every string hostile."""
    arguments = ("name", "device", "engine", "reason", "draft", "draft_note", "kv_type", "quantize")
    numbers = ("context", "slots", "kv_capacity", "kv_used", "running", "waiting", "layers")
    totals = ("prompt", "cached", "completion", "drafted", "accepted")
    sizes = ("weights_bytes", "kv_bytes", "compute_bytes", "rss", "kv_memory_bytes")
    return {
        **dict.fromkeys(arguments, ALL),
        **dict.fromkeys((*numbers, *sizes, "kv_disk_bytes", "layers_on_gpu", "pid"), 1),
        **{f"{name}_tokens_total": 1 for name in totals},
        "state": "ready",
        "fraction": 1.0,
        "error": ALL,
        "memory": {
            "predicted": {"host": 1, "gpu": 0},
            "measured": {"host": 1, "gpu": 0},
            "mapped": 1,
        },
        "decode_rate": 1.0,
        "flash_attention": True,
        "warnings": [ALL],
        "pinned": False,
        "loaded_for": 1.0,
        "expires_in": None,
    }


def in_terminal(command: list[str]) -> str:
    """Run a command on a pty; return its stdout and stderr."""
    parent_end, child_end = pty.openpty()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=child_end, stderr=child_end
    ) as child:
        os.close(child_end)
        written = bytearray()
        while piece := _read(parent_end):
            written += piece
    os.close(parent_end)
    assert child.returncode is not None
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux raises EIO once the last writer has closed
        return b""


def assert_harmless(written: str) -> None:
    assert written
    assert "Traceback" not in written, written[-2000:]
    rest = OWN_SEQUENCES.sub("", written)
    found = UNSAFE.search(rest)
    assert found is None, ascii(rest[max(0, found.start() - 80) : found.end() + 80])
