"""Renders one chat template in a helper process under limits of time, memory and output."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast

import msgspec
import psutil

from ...base.framing import read_body
from .template_errors import (
    HelperDied,
    LimitExceeded,
    TemplateError,
    failure_error,
    memory_error,
)
from .template_protocol import (
    Compile,
    FromHelper,
    HelperReady,
    Render,
    Rendered,
    RenderFailed,
    pack,
)

HELPER = "ingle.backends.text.templates.template_process"
# Variables that Python needs to start and to find the time zone; others may be secrets.
KEPT_VARIABLES = (
    *("APPDATA", "DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT"),
    "TZ",
)
WATCH_INTERVAL = 0.02
MOST_BYTES_A_CHARACTER = 4
FRAME_OVERHEAD = 4096

Answer = TypeVar("Answer", HelperReady, Rendered)


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Limits of one render: seconds of processor time, bytes of memory, characters of output.

    The output may always be eight times as long as the input. With `kernel_memory` the kernel
    bounds what the helper maps above its idle state, else the parent checks its resident size fifty
    times a second. Whatever else the machine does, a render ends after `wall_seconds`, and starting
    a helper may take `start_seconds` in addition.
    """

    seconds: float = 2.0
    memory: int = 512 * 2**20
    characters: int = 4 * 2**20
    wall_seconds: float = 20.0
    start_seconds: float = 30.0
    kernel_memory: bool = sys.platform == "linux"


class TemplateRenderer:
    """Owns at most one helper process, replacing one that exceeds a limit; one caller at a time."""

    def __init__(self, source: str, limits: RenderLimits) -> None:
        self._source = source
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._compiled = False
        self.processor_seconds = 0.0
        """Processor time of everything that helpers have answered."""
        self._decoder = msgspec.msgpack.Decoder[FromHelper](FromHelper)

    @property
    def pid(self) -> int | None:
        """Return the helper's process id, None if it is not running."""
        return self._process.pid if self._process is not None else None

    def start(self) -> subprocess.Popen[bytes]:
        """Return a running helper, which may still be starting: this does not wait."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-X", "utf8", "-m", HELPER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a traceback could quote the conversation
                cwd=os.path.abspath(os.sep),  # noqa: PTH100  # the root of whatever drive this is
                env={k: v for k, v in os.environ.items() if k.upper() in KEPT_VARIABLES},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        return self._process

    def compile(self) -> None:
        """Wait until a helper holds the compiled template; raises `TemplateError`."""
        self._try_twice(None, 0.0, 0)

    def render(self, variables: Mapping[str, object], input_characters: int, seconds: float) -> str:
        """Return the text within `seconds` of processor time; raises `TemplateRefused` or
        `TemplateError`.

        The time to start a helper is not counted.
        """
        characters = max(self._limits.characters, 8 * input_characters)
        request = Render(dict(variables), characters, math.ceil(seconds))
        return self._try_twice(request, seconds, characters)

    def close(self) -> None:
        """End the helper; the next call starts another."""
        process, self._process, self._compiled = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unsent data has no reader any more
                if stream is not None:
                    stream.close()

    def _try_twice(self, request: Render | None, seconds: float, characters: int) -> str:
        """Ask a ready helper, and a second one if the first was killed from outside."""
        died: HelperDied | None = None
        for _ in range(2):
            try:
                self._make_ready()
                if request is None:
                    return ""
                wall = self._limits.wall_seconds
                return self._ask(pack(request), Rendered, seconds, wall, characters).text
            except HelperDied as error:
                self.close()
                died = error
        raise TemplateError(
            "The process that renders the model's chat template ended unexpectedly."
        ) from died

    def _make_ready(self) -> None:
        """Wait until a helper has started and compiled the template."""
        self.start()
        if self._compiled:
            return
        memory = self._limits.memory if self._limits.kernel_memory else None
        source = pack(Compile(self._source, memory))
        try:
            self._ask(b"", HelperReady, self._limits.start_seconds, self._limits.start_seconds)
        except LimitExceeded as error:
            raise TemplateError(
                "The process that renders the model's chat template did not start.",
                hint="The machine seems to be very busy: try again in a while.",
            ) from error
        self._ask(source, HelperReady, self._limits.seconds, self._limits.wall_seconds)
        self._compiled = True

    def _ask(
        self,
        frame: bytes,
        kind: type[Answer],
        seconds: float,
        wall: float,
        characters: int = 0,
    ) -> Answer:
        """Return a successful answer; a helper that exceeded a limit is discarded."""
        try:
            answer = self._exchange(frame, seconds, wall, characters)
        except LimitExceeded:
            self.close()
            raise
        if isinstance(answer, kind):
            return answer
        if not isinstance(answer, RenderFailed):
            raise HelperDied
        if not self._compiled or answer.kind in ("memory", "recursion"):
            self.close()
        raise failure_error(answer, self._limits.memory)

    def _exchange(self, frame: bytes, seconds: float, wall: float, characters: int) -> FromHelper:
        process = self._process
        assert process is not None
        stdin, stdout = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        with _Watchdog(process, seconds, wall, self._limits) as watchdog:
            try:
                stdin.write(frame)
                stdin.flush()
                body = read_body(stdout, MOST_BYTES_A_CHARACTER * characters + FRAME_OVERHEAD)
                return self._decoder.decode(body)
            except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
                failure = error
            finally:
                self.processor_seconds += watchdog.spent()
        raise watchdog.verdict or HelperDied() from failure


class _Watchdog:
    """Kills a helper that exceeds its time, or its memory if the kernel does not bound it.

    Unlike `select`, a killing thread works on every platform and ends a blocked write too.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], seconds: float, wall: float, limits: RenderLimits
    ) -> None:
        self.verdict: LimitExceeded | None = None
        self._process = process
        self._limits = limits
        self._seconds = seconds
        self._began = self._processor_seconds()
        self._deadline = time.monotonic() + wall
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="template-watchdog", daemon=True)

    def __enter__(self) -> _Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def spent(self) -> float:
        """Return the helper's processor time since the start, 0 if it is gone."""
        return max(0.0, self._processor_seconds() - self._began)

    def _watch(self) -> None:
        interval = math.inf if self._limits.kernel_memory else WATCH_INTERVAL
        left = min(self._seconds, self._deadline - time.monotonic())
        # It has one thread, so its processor time is at most what passed.
        while not self._done.wait(min(max(left, WATCH_INTERVAL), interval)):
            left = min(self._seconds - self.spent(), self._deadline - time.monotonic())
            if left <= 0:
                self.verdict = LimitExceeded("The model's chat template took too long to render.")
            elif not self._limits.kernel_memory and self._resident() > self._limits.memory:
                self.verdict = memory_error(self._limits.memory)
            if self.verdict is not None:
                self._process.kill()
                return

    def _processor_seconds(self) -> float:
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return times.user + times.system

    def _resident(self) -> int:
        try:
            return psutil.Process(self._process.pid).memory_info().rss
        except psutil.Error:
            return 0  # the process is gone, which the reader of its pipe will notice
