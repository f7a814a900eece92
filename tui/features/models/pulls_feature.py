"""`PullsFeature`: shows downloads, which the daemon runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError, DaemonUnreachable
from ingle.daemon.client.model_types import DownloadProgress, ModelEntry

from ...session.chat_events import ENDED, Report
from ..feature import Feature

if TYPE_CHECKING:
    from textual.worker import Worker

    from ..chat_host import ChatHost


class PullsFeature(Feature):
    """Starts downloads and shows all running ones, also those of other clients and earlier chats.

    One that this chat waits for is followed to its end, others by the shared event stream.
    """

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._running: dict[str, DownloadProgress] = {}
        self._workers: dict[str, Worker[None]] = {}
        self._hidden: set[str] = set()
        self._ended: set[str] = set()
        self._interrupted: str | None = None
        self.rate: float | None = None
        """Bytes a second of the last download."""

    @property
    def shown(self) -> str | None:
        """The download that the bar shows."""
        return next((name for name in self._running if name not in self._hidden), None)

    def fetch(self, name: str, *, use: bool = False) -> None:
        """Start or join the download of a model; with `use`, talk to the model afterwards."""
        self._hidden.discard(name)
        self._ended.discard(name)
        self.host.mend(f"pull {name}")
        if use:
            self.host.state.pulling, self.host.state.pull_failure = name, ""
        if name not in self._workers:
            self._running[name] = DownloadProgress(model=name, status="resolving")
            self._workers[name] = self.host.run_worker(self._follow(name), group="pull")
        self._show()

    async def cancel(self, name: str) -> None:
        """Cancel a download in the daemon; received data is kept for the next attempt."""
        self._leave(name)
        try:
            await self.host.client.request_json("POST", "/ingle/v1/pull/cancel", {"model": name})
        except ClientError as error:
            self.host.tell(error.message, "error")
            return
        self._forget(name)
        self._ended.add(name)
        self.host.return_queue()
        self.host.tell(f"The download of {name} is stopped; /pull {name} resumes it.")

    async def _follow(self, name: str) -> None:
        def moved(progress: DownloadProgress) -> None:
            nonlocal name
            if progress.model != name:  # a short name or an alias of the full one
                self._rename(name, progress.model)
                name = progress.model
            self._take_progress(progress)

        try:
            entry = await self.host.client.pull(name, moved)
        except DaemonUnreachable:
            # The link reports that the daemon is gone; `on_connected` resumes.
            self._interrupted = name
            self._forget(name)
        except ClientError as error:
            self._break(name, error)
        else:
            self._finish(name, entry)

    def _rename(self, old: str, new: str) -> None:
        state = self.host.state
        self._running.pop(old, None)
        worker = self._workers.pop(old, None)
        if worker is not None:
            self._workers[new] = worker
        if state.pulling == old:
            state.pulling = new
        if state.model_name == old:
            state.want(new)

    def _finish(self, name: str, entry: ModelEntry) -> None:
        state = self.host.state
        wanted = state.pulling == name
        self._forget(name)
        self._ended.add(name)
        state.models = [*(m for m in state.models if m.name not in (name, entry.name)), entry]
        self.host.mend(f"pull {name}")
        if wanted:
            state.pulled(entry)
            self.host.send_next()
        else:
            self.host.tell(f"{entry.name} is downloaded; ctrl+o switches to it.")

    def _break(self, name: str, error: ClientError) -> None:
        wanted = self.host.state.pulling == name
        self._forget(name)
        self._ended.add(name)
        if error.code == "pull_cancelled":
            self.host.tell(f"The download of {name} was stopped; /pull {name} resumes it.")
        elif wanted and not self.host.transcript.entries:
            self.host.state.pull_failed(name, error.message, error.hint)
        else:
            keys = "enter tries again · ctrl+o picks another model"
            keys = keys if wanted else f"/pull {name} tries again"
            self.host.add_failure(error.message, error.hint, keys, cause=f"pull {name}")
        if wanted:
            self.host.return_queue()

    # Events of the daemon

    def on_connected(self) -> None:
        """See `Feature`."""
        state = self.host.state
        if self._interrupted is not None:
            name, self._interrupted = self._interrupted, None
            self.host.tell(f"The download of {name} resumes.")
            self.fetch(name, use=state.model_name == name)
        elif state.model is not None and state.model.state == "downloading":
            self.fetch(state.model.name, use=True)
        self.host.run_worker(self._find_running(), group="pulls")

    async def _find_running(self) -> None:
        """Show the downloads that were started before this chat."""
        try:
            listing = await self.host.client.models()
        except ClientError:
            return  # the link reports it if the daemon is gone
        self.host.welcome.disk_free = listing.disk_free
        for progress in listing.pulls:
            self._take_progress(progress)

    def on_report(self, report: Report) -> None:
        """See `Feature`."""
        if isinstance(report, DownloadProgress):
            self._take_progress(report)

    def _take_progress(self, progress: DownloadProgress) -> None:
        """Show a download that progressed or ended; it may be another client's."""
        name = progress.model
        if progress.bytes_per_second:
            self.rate = progress.bytes_per_second
        if name in self._ended:  # the shared stream may be behind the download's own
            if progress.status in ENDED:
                self._ended.discard(name)
        elif progress.status not in ENDED:
            self._running[name] = progress
            self._show()
        elif name not in self._workers and self._running.pop(name, None) is not None:
            self._show()
            self.host.run_worker(self._tell_end(progress), group="pulls")

    async def _tell_end(self, progress: DownloadProgress) -> None:
        """Report the end of a download that another client follows."""
        if progress.status == "failed":
            name = progress.model
            self.host.tell(f"The download of {name} failed; /pull {name} resumes it.")
            return
        try:
            self.host.state.models = (await self.host.client.models()).models
        except ClientError:
            return
        self.host.tell(f"{progress.model} is downloaded; ctrl+o switches to it.")

    def on_escape(self) -> bool:
        """Leave a download to the daemon."""
        name = self.shown
        if name is None:
            return False
        self._leave(name)
        if self.host.state.pulling == name:
            self.host.state.pulling = None
            self.host.return_queue()
        self.host.tell(f"{name} keeps downloading in the background; /pull {name} shows it again.")
        self._show()
        return True

    # Display

    def _leave(self, name: str) -> None:
        """Stop following a download, which the daemon continues."""
        self._hidden.add(name)
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.cancel()

    def _forget(self, name: str) -> None:
        """Drop a download that has ended."""
        self._workers.pop(name, None)
        self._running.pop(name, None)
        self._hidden.discard(name)
        if self.host.state.pulling == name:
            self.host.state.pulling = None
        self._show()

    def _show(self) -> None:
        shown = self.shown
        bar = self.host.pull_bar
        bar.progress = None if shown is None else self._running[shown]
        bar.others = max(0, len(self._running) - len(self._hidden) - 1)
        self.host.title_bar.pulls = len(self._running)
