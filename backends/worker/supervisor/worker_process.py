"""The daemon's handle of one worker process: start, requests, supervision, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from typing import Literal

import psutil

from ingle.models.file_stamp import first_changed

from ...base.backend import LoadProgress
from ...base.child_process import child_environment, signal_name
from ...base.errors import (
    BackendError,
    EngineFault,
    FileRejected,
    LoadFailed,
    OutOfMemory,
    WorkerDied,
)
from ...base.events import Embedded, EventSink, Reranked, Tokenized
from ...base.kv_page_map import PagesSink
from ...base.load_spec import LoadSpec
from ...base.model_info import Gauges, ModelInfo
from ...base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest
from ...hardware.nvidia_devices import create_uvm_device
from ...registry.engines import get_engine
from ..worker_protocol import (
    Drain,
    DropAdapter,
    FromWorker,
    GaugesReport,
    LivenessPing,
    Load,
    LoadFailure,
    Loading,
    Outputs,
    PagesReport,
    Pong,
    Ready,
    Rejected,
    ToWorker,
    Trim,
    WatchPages,
    encode_frame,
)
from .processor_time import ProcessorTime
from .request_streams import RequestStreams
from .stall_detector import OVERSLEPT, StepWatch, longest_step
from .worker_pipes import WorkerPipes

logger = logging.getLogger(__name__)

_STDERR_LINES = 40
_KILL_AFTER = 1.0
_STALLED_AFTER = 180.0
_WATCH_INTERVAL = 15.0
_LOAD_INTERVAL = 1.0
_LINE_LIMIT = 2**16
_LONGEST_LINE = 500
_LAST_WORDS_WITHIN = 0.3
_LOAD_ERRORS = {kind.code: kind for kind in (LoadFailed, OutOfMemory, FileRejected, EngineFault)}
# A Python exception (see `ingle.backends.worker.__main__`), and signals that a fault raises.
_SIGNALS = ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL", "SIGBUS")
_FAULTS = {3, *(-getattr(signal, name) for name in _SIGNALS if hasattr(signal, name))}


class WorkerProcess:
    """A `Backend` whose model lives in a child process, which dies with the daemon."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.state: Literal["new", "starting", "ready", "stopping", "dead"] = "new"
        self.gauges = Gauges()
        self._process: asyncio.subprocess.Process | None = None
        self._streams = RequestStreams(self._send)
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._tasks: list[asyncio.Task[None]] = []
        self._loading: asyncio.Future[ModelInfo] | None = None
        self._progress: LoadProgress | None = None
        self._is_read = self._has_reported = False
        self._pages_sink: PagesSink | None = None
        self._heard_at = 0.0
        self._watch: asyncio.Task[None] | None = None
        self._dead = asyncio.Event()
        self._cause = ""
        self._is_fault = False

    @property
    def pid(self) -> int | None:
        """Return the child's process id, None before `start`."""
        return self._process.pid if self._process else None

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Spawn the child and wait until the model is ready; a cancelled start leaves no child."""
        assert self.state == "new", "a worker is started once"
        self.state = "starting"
        self._progress = on_progress
        self._loading = asyncio.get_running_loop().create_future()
        try:
            self._process, pipes = await self._spawn()
            self._tasks = [
                asyncio.create_task(self._bury(self._process, pipes), name="worker burial"),
                asyncio.create_task(self._read_stderr(self._process), name="worker stderr"),
            ]
            self._send(Load(self.spec))
            return await self._wait_ready(self._loading)
        except BaseException:
            self._loading.cancel()
            await self.stop(grace=0)
            raise

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`."""
        await self._ready_streams().run(request, sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `RequestBackend.embed`."""
        return await self._ready_streams().ask(request, Embedded)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `RequestBackend.rerank`."""
        return await self._ready_streams().ask(request, Reranked)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `RequestBackend.tokenize`."""
        return await self._ready_streams().ask(request, Tokenized)

    async def wait_dead(self) -> WorkerDied:
        """See `Backend.wait_dead`."""
        await self._dead.wait()
        return WorkerDied(self._cause, stderr_tail=self._tail, is_fault=self._is_fault)

    @property
    def _tail(self) -> str:
        return "\n".join(self._stderr)

    def trim(self) -> None:
        """See `Backend.trim`."""
        if self.state == "ready":
            self._send(Trim())

    def drop_adapter(self, folder: str) -> None:
        """See `Backend.drop_adapter`."""
        if self.state == "ready":
            self._send(DropAdapter(folder))

    def watch_pages(self, sink: PagesSink | None) -> None:
        """See `Backend.watch_pages`."""
        self._pages_sink = sink
        if self.state == "ready":
            self._send(WatchPages(sink is not None))

    async def stop(self, grace: float = 5.0) -> None:
        """Drain for `grace` seconds, then close the child's stdin, then kill it."""
        process = self._process
        if process is None:  # `start` ends the child if it is just being made
            self._die("The model was stopped before it started.")
            return
        if self.state != "dead":
            self.state = "stopping"
            if grace > 0:
                self._send(Drain(grace))
                await _exited(process, grace)
        if process.stdin is not None:
            process.stdin.close()
        if not await _exited(process, _KILL_AFTER if grace > 0 else 0):
            _kill(process)
        await process.wait()
        await asyncio.gather(*self._tasks)

    def _ready_streams(self) -> RequestStreams:
        """Return the streams for another request, and watch the worker; raises `WorkerDied`."""
        if self.state != "ready":
            raise WorkerDied(self._cause or "The model is not running.", hint="Try again.")
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_while_busy(), name="worker watch")
        return self._streams

    async def _spawn(self) -> tuple[asyncio.subprocess.Process, WorkerPipes]:
        loop = asyncio.get_running_loop()
        if get_engine(self.spec.engine).drives_gpu(self.spec):
            await asyncio.to_thread(create_uvm_device)
        transport, pipes = await loop.subprocess_exec(
            lambda: WorkerPipes(self._receive, limit=_LINE_LIMIT, loop=loop),
            sys.executable,
            "-P",
            "-m",
            "ingle.backends.worker",
            str(os.getpid()),
            cwd=tempfile.gettempdir(),
            env=child_environment(os.environ, self.spec.import_path),
            # Ctrl-C in the daemon's terminal is the daemon's to handle: it lets answers finish.
            start_new_session=True,
            # The same on Windows, where it also keeps a console window from opening.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        return asyncio.subprocess.Process(transport, pipes, loop), pipes

    def _send(self, message: ToWorker) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return  # the burial task notices the death and ends the requests
        process.stdin.write(encode_frame(message))

    async def _wait_ready(self, loading: asyncio.Future[ModelInfo]) -> ModelInfo:
        """Wait as long as the worker makes progress."""
        clock = asyncio.get_running_loop().time
        looked_at = self._heard_at = clock()
        time, waited = ProcessorTime(self.pid), 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(loading), _LOAD_INTERVAL)
            slept = clock() - looked_at
            looked_at += slept
            waited_before, waited = waited, time.waited()
            if slept > OVERSLEPT * _LOAD_INTERVAL:  # the daemon was stopped, and read no message
                self._heard_at += slept
            else:  # it makes no progress while other processes have the processors
                self._heard_at += min(slept, waited - waited_before)
            patience = self._load_patience()
            if looked_at - self._heard_at >= patience:
                raise self._load_stalled(patience)

    def _load_patience(self) -> float:
        """Seconds within which a worker that loads has to report progress.

        On a GPU no step takes long, and the worker reports whatever else does: reading from a slow
        disk, and compiling. Before its first report, its libraries are read.
        """
        engine = get_engine(self.spec.engine)
        reports = self._is_read or (self._has_reported and sys.platform != "win32")
        if engine.longest_step is None or not reports or not engine.drives_gpu(self.spec):
            return _STALLED_AFTER
        return engine.longest_step

    def _load_stalled(self, seconds: float) -> LoadFailed | EngineFault:
        if self.pid is not None and _is_stopped(self.pid):
            return LoadFailed(
                f"The model's process {self.pid} was stopped while loading.",
                hint="A debugger or a signal (SIGSTOP) stops a process: try again without.",
            )
        if self._is_read:
            return EngineFault(
                "The model's weights were read, but its first steps did not end within "
                f"{seconds:.0f} seconds.",
                hint="Let another engine run the model, or restart the machine.",
            )
        return LoadFailed(
            f"The model made no progress while loading for {seconds:.0f} seconds.",
            hint="The file may be damaged: pull it again.",
        )

    async def _bury(self, process: asyncio.subprocess.Process, pipes: WorkerPipes) -> None:
        """Wait until the child has ended, and end its requests with the reason."""
        fault = await pipes.over
        if fault is not None:
            logger.error("worker %s: %s", process.pid, fault)
            _kill(process)
            await pipes.closed.wait()
        status = await process.wait()
        await asyncio.wait(self._tasks[1:], timeout=_LAST_WORDS_WITHIN)
        self._is_fault = self._is_fault or (status in _FAULTS and self.state != "stopping")
        self._die(fault or self._epitaph(status))

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # a line longer than the buffer, of which asyncio drops a part
                continue
            if not line:
                return
            text = _printable(line.decode("utf-8", "replace").rstrip()[:_LONGEST_LINE])
            self._stderr.append(text)
            logger.debug("worker %s: %s", process.pid, text)

    async def _watch_while_busy(self) -> None:
        """Kill a worker that has requests but sends nothing and uses no CPU time.

        A step of a large model on a slow machine may send nothing for minutes, but it uses CPU
        time, and takes not much longer than the measured speed suggests.
        """
        clock = asyncio.get_running_loop().time
        most = get_engine(self.spec.engine).longest_step
        interval = _WATCH_INTERVAL if most is None else min(_WATCH_INTERVAL, most / 4)
        time = ProcessorTime(self.pid)
        watch = StepWatch(interval, clock(), time.computed(), time.waited())
        while self.state == "ready":
            self._send(LivenessPing())
            await asyncio.sleep(interval)
            if not self._streams.busy:
                return
            bound = most or longest_step(self.spec.batch, self.gauges.prompt_rate)
            now, computed, waited = clock(), time.computed(), time.waited()
            fault = watch.look(now, self._heard_at, computed, waited, bound)
            if fault is not None:
                self._cause, self._is_fault = fault, True
                assert self._process is not None
                _kill(self._process)
                return

    def _receive(self, message: FromWorker) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        match message:
            case Embedded() | Reranked() | Tokenized() | Outputs() | Rejected():
                self._streams.dispatch(message)
            case GaugesReport(gauges):
                self.gauges = gauges
            case PagesReport(pages):
                if self._pages_sink is not None:
                    self._pages_sink(pages)
            case Loading(fraction):
                self._is_read, self._has_reported = fraction >= 1, True
                if self._progress is not None:
                    self._progress(fraction)
            case Ready(info):
                self._settle(info)
            case LoadFailure():
                kind = _LOAD_ERRORS.get(message.code, LoadFailed)
                self._settle(kind(message.message, hint=message.hint))
            case Pong():
                pass

    def _settle(self, outcome: ModelInfo | BackendError) -> None:
        """Set the outcome of the start, once."""
        if self._loading is None or self._loading.done():
            return
        if isinstance(outcome, BackendError):
            self._loading.set_exception(outcome)
        elif self.state == "starting":  # and not stopped meanwhile
            self.state = "ready"
            self._loading.set_result(outcome)

    def _die(self, cause: str) -> None:
        self.state = "dead"
        self.gauges = self.gauges.after_the_end()
        self._cause = self._cause or cause
        if self._watch is not None:
            self._watch.cancel()
        error = WorkerDied(
            self._cause,
            hint="The next request starts the model again.",
            stderr_tail=self._tail,
            is_fault=self._is_fault,
        )
        self._settle(error)
        self._streams.fail_all(error)
        self._dead.set()

    def _epitaph(self, status: int) -> str:
        if self.state == "stopping":
            return "The model was unloaded."
        if status < 0:
            how = f"was killed by {signal_name(-status)}"
            changed = first_changed(self.spec.stamps)
            if changed is not None:
                return f"The model's process {how}: the file {changed} changed while it was in use."
        else:
            how = f"ended with status {status}"
        last = next((line for line in reversed(self._stderr) if line.strip()), "")
        return f"The model's process {how}{': ' + last if last else '.'}"


async def _exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the end of the process, at most `seconds`; return whether it has ended."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), seconds)
    return process.returncode is not None


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was faster
        process.kill()


def _is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped the process."""
    try:
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        return psutil.Process(pid).status() in stopped
    except psutil.Error:
        return False


def _printable(text: str) -> str:
    """Return the text without characters that could control a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
