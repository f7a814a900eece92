"""LM Studio's downloads of models, and what has become of them."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...errors import NotFound
from ...http.bodies import OPENAI
from ...http.route_access import MODELS
from ...http.route_spec import route
from ...library.pulls import Pull
from ...services import Services
from ..services_api import ServicesApi
from .types import ModelKey

MOST_DOWNLOADS = 100
"""Downloads that are remembered; the oldest that have ended are forgotten first."""

_EARLY = 1.0
"""Seconds in which a download that cannot begin is answered with its error."""

_PAGES = ("https://huggingface.co/", "http://huggingface.co/", "huggingface.co/")
DownloadState = Literal["downloading", "completed", "failed", "already_downloaded"]


class DownloadBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/v1/models/download`: a name of a model, or its page on the hub."""

    model: ModelKey
    quantization: str | None = None


class DownloadStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One download; sizes in bytes, times in ISO 8601."""

    status: DownloadState
    job_id: str | UnsetType = UNSET
    total_size_bytes: int | UnsetType = UNSET
    downloaded_bytes: int | UnsetType = UNSET
    bytes_per_second: float | UnsetType = UNSET
    estimated_completion: str | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    completed_at: str | UnsetType = UNSET


class Downloads(msgspec.Struct, frozen=True, kw_only=True):
    """The downloads by their states; none is ever paused."""

    downloading: list[DownloadStatus]
    completed: list[DownloadStatus]
    failed: list[DownloadStatus]
    paused: list[DownloadStatus] = []


class Download:
    """A download that a client has asked for, and when it began and ended."""

    def __init__(self, pull: Pull) -> None:
        self.id = f"job_{secrets.token_hex(5)}"
        self._pull = pull
        self._started_at = time.time()
        self._ended_at: float | None = None
        self.task = asyncio.create_task(self._wait())
        # A failure is in the status; nothing else may ask for it.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def status(self) -> DownloadStatus:
        """Its state now."""
        progress, state, ended_at = self._pull.progress, self.state, self._ended_at
        is_running = state == "downloading"
        end = time.time() + progress.eta if is_running and progress.eta is not None else None
        return DownloadStatus(
            status=state,
            job_id=self.id,
            total_size_bytes=UNSET if progress.total is None else progress.total,
            downloaded_bytes=progress.received,
            bytes_per_second=progress.bytes_per_second if is_running else UNSET,
            estimated_completion=UNSET if end is None else _iso(end),
            started_at=_iso(self._started_at),
            completed_at=_iso(ended_at) if state == "completed" and ended_at else UNSET,
        )

    @property
    def state(self) -> DownloadState:
        """Whether it runs, or how it has ended."""
        if self._ended_at is None:
            return "downloading"
        return "failed" if self._pull.progress.status == "failed" else "completed"

    async def _wait(self) -> None:
        try:
            await self._pull.result()
        finally:
            self._ended_at = time.time()


_route = partial(route, error_format=OPENAI)


class LMStudioDownloadsApi(ServicesApi):
    """`POST /api/v1/models/download`, and the downloads that it has begun since the start."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._downloads: dict[str, Download] = {}

    @_route(
        "POST",
        "/api/v1/models/download",
        access=MODELS,
        errors=(404, 409, 413, 422, 502, 503, 507),
    )
    async def download(self, body: DownloadBody) -> DownloadStatus:
        """Download a model, or join its download."""
        wanted = self._services.aliases.target(body.model) or _reference(body)
        name = self._services.canonical(wanted)
        installed = await asyncio.to_thread(self._services.models)
        if name in {model.name for model in installed}:
            return DownloadStatus(status="already_downloaded")
        download = Download(self._services.pulls.join(wanted))
        await asyncio.wait({download.task}, timeout=_EARLY)
        if download.task.done():
            download.task.result()  # raises the error of one that has failed at once
        self._downloads[download.id] = download
        self._drop_old()
        return download.status

    @_route("GET", "/api/v1/models/download/status", access=MODELS)
    async def all(self) -> Downloads:
        """The downloads that began through this API since the daemon's start."""
        return Downloads(
            downloading=self._in("downloading"),
            completed=self._in("completed"),
            failed=self._in("failed"),
        )

    @_route("GET", "/api/v1/models/download/status/{job_id}", access=MODELS, errors=(404,))
    async def one(self, job_id: str) -> DownloadStatus:
        """One of these downloads."""
        download = self._downloads.get(job_id)
        if download is None:
            raise NotFound(
                f"There is no download {job_id[:80]!r}.",
                hint="Downloads are listed until the daemon ends; the models are kept.",
                code="job_not_found",
            )
        return download.status

    def _in(self, state: DownloadState) -> list[DownloadStatus]:
        return [each.status for each in self._downloads.values() if each.state == state]

    def _drop_old(self) -> None:
        ended = [download for download in self._downloads.values() if download.task.done()]
        for download in ended[: max(0, len(self._downloads) - MOST_DOWNLOADS)]:
            del self._downloads[download.id]


def _reference(body: DownloadBody) -> str:
    """The name of the model as ingle's catalog and commands have it."""
    name = body.model
    for page in _PAGES:
        if name.startswith(page):
            name = "hf.co/" + name.removeprefix(page).strip("/")
    return f"{name}:{body.quantization}" if body.quantization else name


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
