"""Messages to the chat screen, from the daemon and the history."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.engine_types import InstallProgress
from ingle.daemon.client.model_types import DownloadProgress, LoadedModel, ModelEntry

Report = LoadedModel | GaugesEvent | PagesEvent | DownloadProgress | InstallProgress
"""A model's process, the figures of the daemon, the pages of a KV cache, a download, or the
installation of an engine."""
ENDED = frozenset({"done", "failed"})
"""The states of a download or an installation that is over."""


@dataclass
class DaemonConnected(Message):
    """The daemon answers; these are its models."""

    models: list[ModelEntry]


@dataclass
class DaemonLost(Message):
    """The daemon does not answer, or could not be started."""

    message: str
    hint: str | None


@dataclass
class DaemonReported(Message):
    """The daemon reported an event of its shared stream."""

    report: Report


@dataclass
class HistoryStatusChanged(Message):
    """Chats cannot be saved, or with `is_over` can be saved again; `text` is for the user."""

    text: str
    is_over: bool = False
