"""The verification child process: its report, its errors and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ingle.backends.base.errors import BackendError, WorkerDied
from ingle.backends.jobs.verification.messages import VerificationProgress, VerificationSpec
from ingle.backends.jobs.verification.verifier import run_verification

WriteSmallLlama = Callable[..., Path]
StillRunning = Callable[[Iterable[psutil.Process]], list[psutil.Process]]
TEXT = "the thin hen in the inn " * 20


@pytest.fixture(scope="module")
def small_llama(
    tmp_path_factory: pytest.TempPathFactory, write_small_llama: WriteSmallLlama
) -> Path:
    return write_small_llama(tmp_path_factory.mktemp("llama") / "small.gguf")


@pytest.mark.slow
def test_report_is_received_from_the_child_process(small_llama: Path) -> None:
    heard: list[VerificationProgress] = []
    report = run_verification(VerificationSpec(path=str(small_llama), text=TEXT), heard.append)
    assert report.failures == []
    assert heard[-1].compared == heard[-1].total == report.statistics.tokens
    assert not {"torch", "llama_cpp"} & sys.modules.keys() or "pytest" in sys.modules


@pytest.mark.slow
def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 16)
    with pytest.raises(BackendError) as caught:
        run_verification(VerificationSpec(path=str(path), text=TEXT), lambda _: None)
    assert caught.value.code == "invalid_model"
    assert str(path) in caught.value.message


@pytest.mark.slow
def test_killed_child_process_is_reported(small_llama: Path) -> None:
    def kill(_: VerificationProgress) -> None:
        for child in psutil.Process().children():
            with suppress(psutil.ZombieProcess):  # another test's, which nobody has waited for yet
                if "ingle.backends.jobs.verification.verifier" in child.cmdline():
                    child.kill()

    with pytest.raises(WorkerDied, match=r"was killed by SIGKILL"):
        run_verification(VerificationSpec(path=str(small_llama), text=TEXT), kill)


@pytest.mark.slow
def test_interrupt_ends_the_child_process(small_llama: Path) -> None:
    children: list[psutil.Process] = []
    others = {child.pid for child in psutil.Process().children()}  # children of earlier tests

    def interrupt(_: VerificationProgress) -> None:
        children.extend(c for c in psutil.Process().children() if c.pid not in others)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_verification(VerificationSpec(path=str(small_llama), text=TEXT), interrupt)
    assert children
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert (len(gone), alive) == (len(children), [])


@pytest.mark.slow
def test_child_process_ends_with_its_parent(small_llama: Path, still_running: StillRunning) -> None:
    code = (
        "import sys, os, signal\n"
        "from ingle.backends.jobs.verification.verifier import run_verification\n"
        "from ingle.backends.jobs.verification.messages import VerificationSpec\n"
        "import psutil\n"
        "def show(step):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_verification(VerificationSpec(path=sys.argv[1], text='the hen ' * 200), show)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(small_llama)], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):
        assert not still_running([psutil.Process(int(done.stdout))])
