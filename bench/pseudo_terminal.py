"""Runs a program in a pseudo-terminal, with the times of its output and its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import psutil
import pyte

SIZE = (160, 45)
REPLIES: tuple[tuple[re.Pattern[bytes], bytes], ...] = (
    (re.compile(rb"\x1b\[\?2026\$p"), b"\x1b[?2026;2$y"),
    (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\[>0?c"), b"\x1b[>1;10;0c"),
    (re.compile(rb"\x1b\[>0?q"), b"\x1bP>|xterm(390)\x1b\\"),
    (re.compile(rb"\x1b\]10;\?(?:\x07|\x1b\\)"), b"\x1b]10;rgb:dddd/dddd/dddd\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(?:\x07|\x1b\\)"), b"\x1b]11;rgb:1111/1111/1111\x1b\\"),
    (re.compile(rb"\x1b\[14t"), b"\x1b[4;900;1600t"),
    (re.compile(rb"\x1b\[16t"), b"\x1b[6;20;10t"),
)
"""A typical terminal's replies to queries; some programs wait for them."""
LONGEST_QUERY = 16
# Private modes, strings and colours with colons, which the emulator takes for text.
UNKNOWN = re.compile(
    rb"\x1b\[[<>=?][0-9;]*\$?[a-zA-Z]|\x1b\[[0-9;]*:[0-9:;]*m|\x1b[P_^].*?\x1b\\", re.DOTALL
)
SLOW_PIECE = 256
"""Bytes that a slow line delivers at a time."""
LETTERS = "".join(chr(code) for code in range(0x410, 0x450))
"""64 keys that no answer has in it, so that the first of each on the terminal is the key's own."""


class PseudoTerminal:
    """Runs `arguments` in a terminal of its own; times are those of `time.perf_counter`.

    `chunks` are its output, each with its arrival time. At `rate` bytes a second it displays no
    faster, as over a slow line; without `replies` it answers no queries.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        *,
        size: tuple[int, int] = SIZE,
        folder: Path | None = None,
        rate: int = 0,
        replies: bool = True,
    ) -> None:
        self._size = size
        self._rate = rate
        self._free_at = 0.0
        self._replies = REPLIES if replies else ()
        self._unread = b""
        self.chunks: list[tuple[float, bytes]] = []
        self._emulated = 0
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self.bytes_read = 0
        self.first_byte: float | None = None
        self.ended = False
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            list(arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm-256color", "COLORTERM": "truecolor"} | environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(slave)

    @property
    def pid(self) -> int:
        """Return the program's process id."""
        return self._process.pid

    @property
    def text(self) -> str:
        """Return the screen, line by line; this processes output received since the last call."""
        new = b"".join(data for _, data in self.chunks[self._emulated :])
        self._emulated = len(self.chunks)
        self._stream.feed(UNKNOWN.sub(b"", new))
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def raw(self) -> bytes:
        """All that the program wrote."""
        return b"".join(data for _, data in self.chunks)

    def type(self, keys: str) -> float:
        """Press keys; returns when."""
        at = time.perf_counter()
        os.write(self._fd, keys.encode())
        return at

    def click(self, label: str) -> None:
        """Click on the first place where the screen shows the label."""
        for row, line in enumerate(self.text.splitlines(), 1):
            if (column := line.find(label) + 1) > 0:
                self.type(f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")
                return
        raise RuntimeError(f"There is no {label!r} to click on; the screen:\n{self.text}")

    def read(self, seconds: float) -> bytes:
        """Return output within `seconds`, b"" for none; the terminal's own replies are sent at
        once.
        """
        if (busy := self._free_at - time.perf_counter()) > 0:
            time.sleep(min(busy, seconds))
            if busy > seconds:
                return b""
        if self.ended or not select.select([self._fd], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self._fd, SLOW_PIECE if self._rate else 1 << 16)
        except OSError:  # Linux reports a closed other side like this
            data = b""
        if not data:
            self.ended = True
            return b""
        now = time.perf_counter()
        if self.first_byte is None:
            self.first_byte = now
        self.chunks.append((now, data))
        self.bytes_read += len(data)
        if self._rate:
            self._free_at = now + len(data) / self._rate
        seen = len(self._unread)
        self._unread += data
        for query, reply in self._replies:
            for found in query.finditer(self._unread):
                if found.end() > seen:  # the others were complete in an earlier piece
                    os.write(self._fd, reply)
        self._unread = self._unread[-LONGEST_QUERY:]
        return data

    def wait_for_bytes(self, wanted: bytes, seconds: float) -> float | None:
        """Return when `wanted` was output, None if never."""
        deadline = time.perf_counter() + seconds
        tail = b""
        while time.perf_counter() < deadline and not self.ended:
            data = self.read(0.02)
            if data:
                now = time.perf_counter()
                tail += data
                if wanted in tail:
                    return now
                tail = tail[-len(wanted) :]
        return None

    def wait_for_screen(
        self, condition: Callable[[str], object], seconds: float = 30.0
    ) -> float | None:
        """Return when the screen fulfilled `condition`, None if never."""
        deadline = time.perf_counter() + seconds
        while True:
            data = self.read(0.02)
            now = time.perf_counter()
            over = self.ended or now >= deadline
            if (data or over) and condition(self.text):
                return now
            if over:
                return None

    def rest(self, seconds: float) -> None:
        """Read on for so long."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0 and not self.ended:
            self.read(left)

    def settle(self, quiet: float = 0.5, seconds: float = 20.0) -> None:
        """Read until nothing has come for `quiet` seconds."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and self.read(quiet):
            pass

    def press_and_wait(self, letter: str, seconds: float = 10.0) -> float | None:
        """Return the seconds from a key to its letter on the terminal, None if it never came."""
        at = self.type(letter)
        painted = self.wait_for_bytes(letter.encode(), seconds)
        return None if painted is None else painted - at

    def processes(self) -> list[psutil.Process]:
        """The program and its children."""
        try:
            program = psutil.Process(self.pid)
            return [program, *program.children(recursive=True)]
        except psutil.Error:
            return []

    def memory(self) -> float:
        """PSS of the program and its children, in MB."""
        total = 0
        for process in self.processes():
            try:
                used = process.memory_full_info()
            except psutil.Error:
                continue
            total += getattr(used, "pss", used.rss)
        return total / 1e6

    def cpu_seconds(self) -> float:
        """CPU time of the program and its children so far."""
        return sum(_cpu_seconds(process) for process in self.processes())

    def close(self) -> None:
        """End the program and all it started."""
        for process in reversed(self.processes()):
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.Error:
                continue
        self._process.wait()
        os.close(self._fd)

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        if sys.platform == "linux":
            # The clock of clock_getcpuclockid(3): nanoseconds, while psutil has hundredths of a
            # second.
            return time.clock_gettime((~process.pid << 3) | 2)
        times = process.cpu_times()
    except (OSError, psutil.Error):
        return 0.0
    return times.user + times.system
