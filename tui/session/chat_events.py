"""What the parts of the chat tell the app."""

from __future__ import annotations

from textual.message import Message

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.model_types import LoadedModel, ModelEntry, PullProgress

ENDED = frozenset({"done", "failed"})
"""The states of a download that is over."""


class DaemonConnected(Message):
    """The daemon answers; these are its models."""

    def __init__(self, models: list[ModelEntry]) -> None:
        super().__init__()
        self.models = models


class DaemonLost(Message):
    """The daemon does not answer, or could not be started."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__()
        self.message = message
        self.hint = hint


class ModelMoved(Message):
    """A model's process changed."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        self.model = model


class GaugesMoved(Message):
    """The daemon told its figures."""

    def __init__(self, gauges: GaugesEvent) -> None:
        super().__init__()
        self.gauges = gauges


class PagesMoved(Message):
    """The daemon told what is in a model's KV cache."""

    def __init__(self, pages: PagesEvent) -> None:
        super().__init__()
        self.pages = pages


class HistoryStatusChanged(Message):
    """Chats cannot be kept now; with `is_over` they can, and something else is told about them."""

    def __init__(self, text: str, *, is_over: bool = False) -> None:
        super().__init__()
        self.text = text
        self.is_over = is_over


class PullMoved(Message):
    """A download got further, or is over."""

    def __init__(self, progress: PullProgress) -> None:
        super().__init__()
        self.progress = progress
