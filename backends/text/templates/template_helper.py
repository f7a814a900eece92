"""The parent's side of the helper process that renders a chat template."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import BinaryIO, cast

import msgspec
import psutil

from ...base.framing import read_body
from .template_errors import HelperDied, LimitExceeded, TemplateError, memory_error
from .template_protocol import Awake, FromHelper, ToHelper, pack

HELPER = "ingle.backends.text.templates.template_process"
# Variables that Python needs to start and to find the time zone; others may be secrets.
KEPT_VARIABLES = frozenset(
    {
        "APPDATA",
        "DYLD_LIBRARY_PATH",
        "LD_LIBRARY_PATH",
        "PYTHONHOME",
        "PYTHONPATH",
        "SYSTEMROOT",
        "TZ",
    }
)
WATCH_INTERVAL = 0.02
MOST_BYTES_A_CHARACTER = 4
FRAME_OVERHEAD = 4096


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Limits of one render: seconds of wall clock, bytes of memory, characters of output.

    The output may always be eight times as long as the input. With `kernel_memory` the kernel
    bounds what the helper maps above its idle state, else the parent checks its resident size fifty
    times a second. Starting a helper may take `start_seconds` in addition.
    """

    seconds: float = 2.0
    memory: int = 512 * 2**20
    characters: int = 4 * 2**20
    start_seconds: float = 30.0
    kernel_memory: bool = sys.platform == "linux"

    def characters_for(self, input_characters: int) -> int:
        """Return the output limit for an input of this length."""
        return max(self.characters, 8 * input_characters)


class TemplateHelper:
    """One helper process and its pipes; one caller at a time."""

    def __init__(self, limits: RenderLimits) -> None:
        self._limits = limits
        self._awake = False
        self._decoder = msgspec.msgpack.Decoder[FromHelper](FromHelper)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-m", HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a traceback could quote the conversation
            cwd=os.path.abspath(os.sep),  # noqa: PTH100  # the root of whatever drive this is
            env={k: v for k, v in os.environ.items() if k.upper() in KEPT_VARIABLES},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until the imports are done; raises `HelperDied` or `TemplateError`."""
        if self._awake:
            return
        try:
            answer = self._ask(b"", self._limits.start_seconds, FRAME_OVERHEAD)
        except LimitExceeded as error:
            raise TemplateError(
                "The process that renders the model's chat template did not start.",
                hint="The machine seems to be very busy: try again in a while.",
            ) from error
        if not isinstance(answer, Awake):
            raise HelperDied
        self._awake = True

    def ask(self, request: ToHelper, seconds: float, characters: int) -> FromHelper:
        """Return the answer; raises `HelperDied`, `LimitExceeded` or `UnicodeEncodeError`.

        After the first two the helper is unusable.
        """
        return self._ask(
            pack(request), seconds, MOST_BYTES_A_CHARACTER * characters + FRAME_OVERHEAD
        )

    def close(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                continue  # unsent data has no reader any more

    def _ask(self, frame: bytes, seconds: float, answer_bytes: int) -> FromHelper:
        stdin = cast(BinaryIO, self._process.stdin)
        stdout = cast(BinaryIO, self._process.stdout)
        with _Watchdog(self._process, seconds, self._limits) as watchdog:
            try:
                stdin.write(frame)
                stdin.flush()
                return self._decoder.decode(read_body(stdout, answer_bytes))
            except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
                failure = error
        if watchdog.verdict is not None:
            raise watchdog.verdict from failure
        raise HelperDied from failure


class _Watchdog:
    """Kills a helper that exceeds its time, or its memory if the kernel does not bound it.

    Unlike `select`, a killing thread works on every platform and ends a blocked write too.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], seconds: float, limits: RenderLimits
    ) -> None:
        self.verdict: LimitExceeded | None = None
        self._process = process
        self._limits = limits
        self._deadline = time.monotonic() + seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="template-watchdog", daemon=True)

    def __enter__(self) -> _Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._pause()):
            if time.monotonic() >= self._deadline:
                self.verdict = LimitExceeded("The model's chat template took too long to render.")
            elif not self._limits.kernel_memory and self._resident() > self._limits.memory:
                self.verdict = memory_error(self._limits.memory)
            if self.verdict is not None:
                self._process.kill()
                return

    def _pause(self) -> float:
        remaining = max(0.0, self._deadline - time.monotonic())
        return remaining if self._limits.kernel_memory else min(remaining, WATCH_INTERVAL)

    def _resident(self) -> int:
        try:
            return psutil.Process(self._process.pid).memory_info().rss
        except psutil.Error:
            return 0  # the process is gone, which the reader of its pipe will notice
