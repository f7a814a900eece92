"""Worker deaths by every signal at every stage of a real worker's life, streamed or not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon

pytestmark = [pytest.mark.model, pytest.mark.slow]

SIGNALS = ("SEGV", "ABRT", "BUS", "KILL")
MOMENTS = {
    "load": "worker.load=signal:{}@2",
    "prefill": "worker.prefill=signal:{}",
    "decode": "worker.decode=signal:{}@3",
    "idle": "",
}
CASES = [
    (name, moment, stream) for name in SIGNALS for moment in MOMENTS for stream in (True, False)
]


def ask(daemon: FaultDaemon, model: Path, *, stream: bool) -> tuple[int, str]:
    body = {"model": str(model), "prompt": "One, two, three,", "max_tokens": 12, "stream": stream}
    answer = daemon.http.post("/v1/completions", json={**body, "temperature": 0})
    return answer.status_code, answer.text


@pytest.mark.parametrize(("name", "moment", "stream"), CASES)
def test_worker_death_fails_at_most_one_request(
    make_daemon: MakeDaemon,
    smollm2_path: Path,
    tmp_path: Path,
    name: str,
    moment: str,
    stream: bool,
) -> None:
    rule = MOMENTS[moment].format(name)
    daemon = make_daemon(failpoints=f"{rule},once:{tmp_path / 'once'}" if rule else "")
    pid = daemon.process.pid
    if moment == "idle":
        assert ask(daemon, smollm2_path, stream=False)[0] == 200
        worker, before = daemon.worker(), daemon.descriptors()
        os.kill(worker.pid, getattr(signal, f"SIG{name}"))
        daemon.until(lambda: daemon.models()[0]["state"] == "failed")
        assert name in daemon.models()[0]["error"]
        assert daemon.descriptors() < before  # its pipes are closed
        assert daemon.models()[0]["pid"] is None
    status, text = ask(daemon, smollm2_path, stream=stream)
    assert status == 200
    reported = f"SIG{name}" in text
    assert reported is (moment == "decode" and stream)
    assert ask(daemon, smollm2_path, stream=stream)[0] == 200
    baseline = daemon.descriptors()
    assert ask(daemon, smollm2_path, stream=stream)[0] == 200
    assert daemon.descriptors() <= baseline
    daemon.until(lambda: daemon.zombies() == [])
    assert daemon.metric("ingle_worker_deaths_total") == 1
    assert daemon.process.pid == pid
    assert daemon.process.poll() is None


@pytest.mark.parametrize("name", SIGNALS)
def test_death_and_not_the_watch_for_hangs_ends_a_stream(
    make_daemon: MakeDaemon, smollm2_path: Path, name: str
) -> None:
    daemon = make_daemon()
    body = {"model": str(smollm2_path), "prompt": "Once", "max_tokens": 2000, "stream": True}
    with daemon.http.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        while '"text"' not in next(lines):
            continue
        os.kill(daemon.worker().pid, getattr(signal, f"SIG{name}"))
        while "error" not in (line := next(lines)):
            continue
    assert f"SIG{name}" in line
