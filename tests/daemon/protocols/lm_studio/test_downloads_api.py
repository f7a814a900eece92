"""LM Studio's downloads over real sockets, with a scripted source."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ingle.models.download.pull_progress import OnPullProgress, PullProgress
from ingle.models.errors import ModelNotFound, SourceUnavailable
from ingle.models.metadata.stored_model import StoredModel

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

DOWNLOAD = "/api/v1/models/download"


class ScriptedSource:
    """Delivers half of a model, and the rest when `gate` is set."""

    def __init__(self) -> None:
        self.daemon: RunningDaemon | None = None
        self.gate = threading.Event()
        self.references: list[str] = []

    def pull(
        self, reference: str, on_progress: OnPullProgress, cancelled: Callable[[], bool]
    ) -> StoredModel:
        self.references.append(reference)
        if reference == "nope":
            raise ModelNotFound("No such model.")
        on_progress(
            PullProgress(
                model=reference,
                status="downloading",
                received=5,
                total=10,
                bytes_per_second=2.5,
                eta=2.0,
            )
        )
        self.gate.wait(10)
        if reference == "hf.co/a/broken":
            raise SourceUnavailable("The hub does not answer.")
        on_progress(PullProgress(model=reference, status="verifying", received=10, total=10))
        assert self.daemon is not None
        return self.daemon.services.store.resolve("echo:1")


async def ended(daemon: RunningDaemon, job_id: str) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            status = (await daemon.tcp.get(f"{DOWNLOAD}/status/{job_id}")).json()
            if status["status"] != "downloading":
                return status
            await asyncio.sleep(0.02)


async def test_downloads_are_followed_to_their_end(run_daemon: DaemonFactory) -> None:
    source = ScriptedSource()
    async with run_daemon(pull=source.pull) as daemon:
        source.daemon = daemon
        page = "https://huggingface.co/a/b"
        body = {"model": page, "quantization": "Q4_K_M"}
        begun = (await daemon.tcp.post(DOWNLOAD, json=body)).json()
        assert source.references == ["hf.co/a/b:Q4_K_M"]
        assert begun["status"] == "downloading"
        assert (begun["downloaded_bytes"], begun["total_size_bytes"]) == (5, 10)
        assert begun["bytes_per_second"] == 2.5
        assert begun["estimated_completion"] > begun["started_at"]
        broken = (await daemon.tcp.post(DOWNLOAD, json={"model": "hf.co/a/broken"})).json()
        listed = (await daemon.tcp.get(f"{DOWNLOAD}/status")).json()
        assert len(listed["downloading"]) == 2
        source.gate.set()
        done = await ended(daemon, begun["job_id"])
        assert (done["status"], done["downloaded_bytes"]) == ("completed", 10)
        assert done["completed_at"] >= done["started_at"]
        failed = await ended(daemon, broken["job_id"])
        assert failed["status"] == "failed"
        listed = (await daemon.tcp.get(f"{DOWNLOAD}/status")).json()
        assert {name: len(jobs) for name, jobs in listed.items()} == {
            "downloading": 0,
            "completed": 1,
            "failed": 1,
            "paused": 0,
        }


async def test_what_needs_no_download_or_cannot_begin(run_daemon: DaemonFactory) -> None:
    source = ScriptedSource()
    async with run_daemon(pull=source.pull) as daemon:
        present = await daemon.tcp.post(DOWNLOAD, json={"model": "echo:1"})
        assert present.json() == {"status": "already_downloaded"}
        missing = await daemon.tcp.post(DOWNLOAD, json={"model": "nope"})
        assert missing.status_code == 404
        unknown = await daemon.tcp.get(f"{DOWNLOAD}/status/job_0")
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"] == "job_not_found"
        assert (await daemon.tcp.get(f"{DOWNLOAD}/status")).json()["failed"] == []
