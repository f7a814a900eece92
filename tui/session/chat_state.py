"""`ChatState`: the state of the daemon connection and of the chat's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ingle.daemon.client.daemon_types import DeviceGauges, GaugesEvent
from ingle.daemon.client.model_types import LoadedModel, ModelEntry

from ..chats.chat import Chat
from ..text import number_format
from ..text.terminal_safe_text import clean
from .model_choice import ModelOffer, choose_model, offered_models
from .turn import Turn

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore


class ChatStatus(msgspec.Struct, frozen=True):
    """The content of the status line; None and 0 stand for unknown numbers."""

    model: str = ""
    state: str = "connecting"
    good: bool = False
    bad: bool = False
    speed: float | None = None
    first_token: float | None = None
    context_used: int = 0
    context: int = 0


@dataclass
class ChatState:
    """The last reported facts; `changed` is called after each change of a field.

    `trouble` is why the daemon does not answer.
    """

    changed: Callable[[], object] = lambda: None
    wanted: str | None = None
    connected: bool = False
    trouble: tuple[str, str | None] | None = None
    models: list[ModelEntry] = field(default_factory=list[ModelEntry])
    model: ModelEntry | None = None
    loaded: LoadedModel | None = None
    loaded_models: list[LoadedModel] = field(default_factory=list[LoadedModel])
    """The models in memory as last reported; the plain chat does not follow these reports."""
    devices: list[DeviceGauges] = field(default_factory=list[DeviceGauges])
    free_bytes: int | None = None
    """Available RAM, None before the first report."""
    pulling: str | None = None
    unavailable: tuple[str, ...] = ()
    """The models whose downloads failed."""
    pull_failure: str = ""
    """Why the last download for this chat failed, until another begins."""
    kept_here: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    """The kinds that the user did not let out, by conversation and target."""
    not_kept: str = ""
    """The reason why chats are not saved, "" if they are."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self.changed()

    @property
    def model_name(self) -> str | None:
        """The name of the model that answers; None leaves the choice to the daemon."""
        return self.model.name if self.model is not None else self.wanted

    @property
    def must_pull(self) -> bool:
        """Whether the model has to be downloaded and is not downloading yet."""
        model = self.model
        missing = model is not None and model.writes and not model.installed
        return self.connected and missing and self.pulling != self.model_name

    @property
    def can_ask(self) -> bool:
        """Whether a prompt can be sent now."""
        model = self.model
        return self.connected and (model is None or (model.installed and model.writes))

    @property
    def placeholder(self) -> str:
        """The placeholder of the empty composer: the meaning of enter, if it has one."""
        if self.trouble is not None:
            return "enter starts the daemon again"
        return f"enter downloads {self.model_name}" if self.must_pull else "Message"

    @property
    def offers(self) -> list[ModelOffer]:
        """The models offered to a user without one."""
        return offered_models(self.models, self.unavailable)

    def pull_failed(self, name: str, message: str, hint: str | None) -> None:
        """Offer another model in place of one that cannot be downloaded, best the default one."""
        self.unavailable = (*self.unavailable, name)
        parts = (f"✗ {name} was not downloaded.", message, hint)
        self.pull_failure = " ".join(part for part in parts if part)
        others = [offer.model for offer in self.offers if offer.model.name not in self.unavailable]
        if others:
            self.choose(next((model for model in others if model.default), others[0]))

    def loaded_named(self, name: str) -> LoadedModel | None:
        """The process of the model of this name, as last reported."""
        return next((model for model in self.loaded_models if model.name == name), None)

    def connect(self, models: list[ModelEntry]) -> None:
        """Store that the daemon answers, with its models."""
        self.connected = True
        self.trouble = None
        self.models = models
        self.choose(choose_model(models, self.model_name))

    def lose(self, message: str, hint: str | None) -> None:
        """Store that the daemon does not answer, and why."""
        self.connected = False
        self.trouble = (message, hint)
        self.loaded = None

    def update_gauges(self, gauges: GaugesEvent) -> None:
        """Store the daemon's figures."""
        self.loaded_models = gauges.models
        self.free_bytes = gauges.memory.available or None
        self.devices = gauges.devices
        self.update_loaded(gauges.models)

    def update_loaded(self, models: Sequence[LoadedModel]) -> None:
        """Store the chat's own model, if it is among these processes."""
        self.loaded = next((m for m in models if m.name == self.model_name), self.loaded)

    def choose(self, model: ModelEntry | None) -> None:
        """Use this model from now on."""
        self.model = model
        self.loaded = None

    def want(self, name: str) -> None:
        """Use the model of this name from now on, if there is one."""
        self.wanted = name
        self.choose(choose_model(self.models, name))

    def pulled(self, entry: ModelEntry) -> None:
        """Add a downloaded model, and use it."""
        self.models = [*(m for m in self.models if m.name != entry.name), entry]
        self.choose(entry)

    def status(self, previous: ChatStatus, turn: Turn | None) -> ChatStatus:
        """The status line; figures of the last turn stay until the next one has its own."""
        words, good, bad = self._words(turn)
        return ChatStatus(
            model=clean(self.model_name or "") if self.trouble is None else "",
            state=words,
            good=good,
            bad=bad,
            speed=previous.speed if turn is None else turn.speed,
            first_token=previous.first_token if turn is None else turn.first_token_seconds,
            context_used=previous.context_used if turn is None else turn.context_used,
            context=self.context(turn),
        )

    def context(self, turn: Turn | None) -> int:
        """The longest context that a request may have; before the model is loaded, a forecast."""
        if turn is not None and turn.context:
            return turn.context
        if self.loaded is not None and self.loaded.context:
            return max(self.loaded.context, self.loaded.longest_context)
        if self.model is None or not self.model.installed:
            return 0
        fit = self.model.fit
        forecast = max(fit.context, fit.longest_context) if fit is not None else 0
        return forecast or self.model.context

    def _words(self, turn: Turn | None) -> tuple[str, bool, bool]:
        """The state in words, and whether it is good or bad."""
        if self.trouble is not None:
            return "daemon stopped", False, True
        if not self.connected:
            return "starting the daemon", False, False
        if self.pulling is not None:
            return "downloading", False, False
        if turn is not None and turn.ending is None:
            if turn.loading is not None:
                return f"starting {number_format.percent(turn.loading)}", False, False
            return "answering" if turn.text else "prefill", True, False
        if self.loaded is not None and self.loaded.state != "stopped":
            return self._process_words(self.loaded)
        if self.model is None:
            return ("no such model" if self.wanted else "no model"), False, True
        if not self.model.writes:
            return "cannot chat", False, True
        if not self.model.installed:
            return "not downloaded", False, False
        return ("ready" if self.model.state == "ready" else "on disk"), True, False

    @staticmethod
    def _process_words(loaded: LoadedModel) -> tuple[str, bool, bool]:
        if loaded.state == "starting":
            return f"starting {number_format.percent(loaded.fraction)}", False, False
        if loaded.state == "failed":
            return "failed", False, True
        return loaded.state, loaded.state == "ready", False


class ChatView(NamedTuple):
    """The data of the widgets around the transcript; `store` is None if chats are not kept."""

    state: ChatState
    chat: Chat
    store: HistoryStore | None = None


def key_hints(busy: bool, width: int, enter_sends: bool = True) -> str:
    """The key hints that fit into the screen's width."""
    if busy:
        return "esc stops · enter queues"
    keys = "enter send · ctrl+j new line" if enter_sends else "ctrl+j send · enter new line"
    return f"{keys} · F1 help" if width >= 60 else "F1 help"
