"""Messages to the chat screen, from the daemon and the history."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.model_types import DownloadProgress, LoadedModel, ModelEntry

ENDED = frozenset({"done", "failed"})
"""The states of a download that is over."""


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
class ModelMoved(Message):
    """A model's process changed."""

    model: LoadedModel


@dataclass
class GaugesMoved(Message):
    """The daemon reported its figures."""

    gauges: GaugesEvent


@dataclass
class PagesMoved(Message):
    """The daemon reported what is in a model's KV cache."""

    pages: PagesEvent


@dataclass
class HistoryStatusChanged(Message):
    """Chats cannot be saved now; with `is_over` they can, and something else is said of them."""

    text: str
    is_over: bool = False


@dataclass
class PullMoved(Message):
    """A download progressed or ended."""

    progress: DownloadProgress
