"""`GaugesFeature`: live gauges of the engine, beside the chat or on the whole screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.model_types import DownloadProgress

from ...chats.chat import Chat
from ...chats.context_view import RequestMessage, request_messages
from ...gauges.context_counter import ContextCounter
from ...gauges.context_usage import ContextUse
from ...gauges.gauge_state import GaugeState
from ...gauges.page_map_cells import chat_of
from ...gauges.prefill_cost import CachedPrompts, PrefillCost
from ...history.database.history_errors import HistoryError
from ...session.chat_events import ENDED, Report
from ...text.terminal_safe_text import clean
from ...widgets.status_line import MemoryStatus
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from textual.timer import Timer

    from ...history.history_store import HistoryStore
    from ...screens.context.gauges_screen import GaugesScreen, PageMapScreen
    from ...session.turn import Turn
    from ...settings.preferences import Preferences
    from ...widgets.gauges.gauge_panel import GaugePanel
    from ..chat_host import ChatHost

TICK = 0.5
"""Seconds between two drawings."""
IDLE_SECONDS = 0.7
"""Idle seconds before the daemon is asked to count tokens."""
SHOWN_ROUTES = 4
LONG_CHAT = 400
"""Messages from which a chat is counted in a thread."""

Mode = Literal["side", "full", "off"]


class GaugesFeature(Feature):
    """Draws figures at most twice a second, and only if they are visible."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self.state = GaugeState()
        self.counter = ContextCounter()
        self._beside = host.preferences.gauges
        self.mode: Mode = "side" if self._beside else "off"
        self._panel: GaugePanel | None = None
        self._screen: GaugesScreen | PageMapScreen | None = None
        self._drawing: Timer | None = None
        self._counting: Timer | None = None
        self._drawn_at = 0.0
        self._stale = True
        self._sent = CachedPrompts()
        self._titles: dict[str, str] = {}
        self._asked_titles: set[str] = set()

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "gauges": lambda _: self.cycle(),
            "kv": lambda _: self._open(only_map=True),
        }

    # Events

    def on_ready(self) -> None:
        """Put the panel beside the chat."""
        self.host.call_later(self._mount_panel)

    async def _mount_panel(self) -> None:
        from ...widgets.gauges.gauge_panel import GaugePanel

        self._panel = GaugePanel(self._visibility_changed)
        await self.host.query_one("#main").mount(self._panel)
        self._apply_mode()

    def on_preferences(self, preferences: Preferences) -> None:
        """Show or hide the panel beside the chat."""
        if preferences.gauges != self._beside:
            self._beside = preferences.gauges
            self.mode = "side" if self._beside else "off"
            self._apply_mode()

    def on_connected(self) -> None:
        self._changed()

    def on_chat_opened(self) -> None:
        self._sent.clear()
        self._changed()

    def on_path_changed(self) -> None:
        self._changed()

    def on_turn_started(self, turn: Turn) -> None:
        model = self.host.state.model_name or ""
        self._sent.add(model, request_messages(self.host.chat))
        self._changed()

    def on_turn_ended(self, turn: Turn) -> None:
        self._sent.add_answer(turn.text, turn.message.facts)
        self._changed()
        self.draw()

    def on_report(self, report: Report) -> None:
        """See `Feature`."""
        match report:
            case GaugesEvent():
                before = self._is_ready
                self.state.update_gauges(report, time.monotonic())
                if self._is_ready and not before:
                    self._changed()  # now it can count
            case PagesEvent():
                self.state.update_pages(report)
                labels = (label for group in report.groups for label in group.conversations)
                self._learn_titles(set(map(chat_of, labels)))
            case DownloadProgress() if report.status in ENDED:
                self.state.pulls.pop(report.model, None)
            case DownloadProgress():
                self.state.pulls[report.model] = report
            case _:
                return
        self._request_drawing()

    @property
    def _is_ready(self) -> bool:
        """Whether the process of the chat's model is ready."""
        loaded = self.state.loaded
        return loaded is not None and loaded.state == "ready"

    def on_state(self) -> None:
        """Drop the figures of a daemon that is gone and the map of another model."""
        host, state = self.host, self.state
        if not host.state.connected and state.gauges is not None:
            state.gauges = state.pages = None
            self._request_drawing()
        elif (host.state.model_name or "") != state.model:
            state.pages = None
            self._changed()

    def on_closing(self) -> None:
        for timer in (self._drawing, self._counting):
            if timer is not None:
                timer.stop()

    def _changed(self) -> None:
        """The next prompt has changed: count it again, exactly once nothing changes any more."""
        self._stale = True
        self._request_drawing()
        if self._counting is not None:
            self._counting.stop()
        self._counting = self.host.set_timer(IDLE_SECONDS, self._count)

    async def _count(self) -> None:
        if self.host.turn is None and self.host.state.connected and self._is_ready:
            self.host.run_worker(self._ask_counts(), group="tokens")

    async def _ask_counts(self) -> None:
        if await self.counter.ask(self.host.client):
            self._stale = True
            self._request_drawing()

    # Drawing

    def _request_drawing(self) -> None:
        """Schedule a drawing, at most one each `TICK` seconds."""
        if self._drawing is None and self.host.is_attached:
            delay = max(0.01, self._drawn_at + TICK - time.monotonic())
            self._drawing = self.host.set_timer(delay, self.draw)

    def draw(self) -> None:
        """Update every visible gauge."""
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None
        state = self.state
        state.now = self._drawn_at = time.monotonic()
        if not self.host.preferences.motion or self.host.chat_app.animation_level == "none":
            state.flashing = frozenset()
        self._collect()
        self._show_status()
        if self._panel is not None and self._panel.display and self._screen is None:
            self._panel.show(state)
        if self._screen is not None:
            self._screen.show(state)
        self._watch()
        if state.flashing:
            state.flashing = frozenset()
            self._request_drawing()

    def _collect(self) -> None:
        """Add the figures of the open chat to those of the daemon."""
        host, state = self.host, self.state
        chat = host.chat
        model = host.state.model_name or ""
        if self._stale or model != state.model:
            self._stale = False
            state.model = model
            state.models = host.state.models
            if len(chat.messages) <= LONG_CHAT:
                self.counter.look(chat, model)
                self._take_answers(chat)
            else:
                host.run_worker(self._look(chat, model), group="context")
        state.label = chat.label
        state.title_of = self._title_of
        turn = host.turn
        running = turn.context_used if turn is not None and turn.prompt_tokens else None
        context = host.state.context(turn)
        state.use = self.counter.use(context, chat.settings.sampling, running)

    async def _look(self, chat: Chat, model: str) -> None:
        """Count a long chat in a thread, so that keys do not wait."""
        await asyncio.to_thread(self.counter.look, chat, model)
        if chat is self.host.chat:
            self._take_answers(chat)
            self._request_drawing()

    def _take_answers(self, chat: Chat) -> None:
        """The routes of the answers, and the engine's own count if nothing changed since."""
        leaf, compacted = chat.leaf, chat.active_compaction()
        if (
            leaf is not None
            and leaf.role == "assistant"
            and leaf.facts.prompt_tokens
            and (compacted is None or compacted.created < leaf.created)
        ):
            total = leaf.facts.prompt_tokens + leaf.facts.completion_tokens
            self.counter.set_total(leaf.id, total)
        answers = [m for m in chat.path if m.role == "assistant" and not m.is_open]
        self.state.last = answers[-1].facts if answers else None
        self.state.cloud = sum(1 for answer in answers if answer.facts.route != "local")
        self.state.answers = tuple(answers[: -SHOWN_ROUTES - 1 : -1])

    def _title_of(self, chat: str) -> str | None:
        own = self.host.chat
        return (clean(own.title) if chat == own.id else self._titles.get(chat)) or None

    def _learn_titles(self, chats: set[str]) -> None:
        """Read the titles of chats whose pages are reported for the first time."""
        unknown = chats - self._asked_titles - {"", self.host.chat.id}
        store = self.host.store
        if unknown and store is not None:
            self._asked_titles |= unknown
            self.host.run_worker(self._read_titles(store), group="titles")

    async def _read_titles(self, store: HistoryStore) -> None:
        # A failure of the history is reported elsewhere; here a title is missing.
        with suppress(HistoryError):
            chats = await asyncio.to_thread(store.recent)
            self._titles = {chat.id: clean(chat.title) for chat in chats}

    def _show_status(self) -> None:
        line, state = self.host.status_line, self.state
        line.use = state.use
        memory = next(iter(state.memory()), None)
        line.memory = MemoryStatus(memory, state.loaded, state.last)

    # Placement

    def _visibility_changed(self) -> None:
        """Update the subscription after the panel was shown or hidden."""
        self._watch()
        self._request_drawing()

    def _watch(self) -> None:
        """Subscribe to the page map while it is on the screen."""
        seen = self._screen is not None or (self._panel is not None and self._panel.display)
        self.host.link.watch_pages(self.state.model if seen and self._is_ready else None)

    def _apply_mode(self) -> None:
        self.host.status_line.set_class(self.mode == "off", "-off")
        if self._panel is not None:
            self._panel.set_class(self.mode != "off", "-shown")
        self._request_drawing()

    def cycle(self) -> None:
        """Switch to the next mode: beside the chat, on the whole screen, off."""
        if self.mode == "off":
            self.mode = "side"
            self._apply_mode()
            if self._has_side:
                return
        self.mode = "full"
        self._open()

    @property
    def _has_side(self) -> bool:
        """Whether the terminal has room for anything beside the chat."""
        return self.host.has_class("-broad") or self.host.has_class("-roomy")

    def _open(self, *, only_map: bool = False) -> None:
        """Show the gauges, or only the page map, on the whole screen."""
        from ...screens.context.gauges_screen import GaugesScreen, PageMapScreen

        if self._screen is not None:
            return
        before = self.mode if self.mode != "full" else "side"
        screen = self._screen = PageMapScreen() if only_map else GaugesScreen()

        def closed(then: Literal["side", "off"] | None) -> None:
            self._screen = None
            self.mode = "off" if then == "off" else before
            self._apply_mode()
            self.draw()

        self.host.chat_app.push_screen(screen, closed)
        screen.call_after_refresh(self.draw)

    async def count_context(self) -> tuple[ContextCounter, ContextUse]:
        """The tokens of the next prompt by message and role."""
        host = self.host
        await self._look(host.chat, host.state.model_name or "")
        if await self.counter.ask(host.client):
            await self._look(host.chat, self.counter.model)
        self._collect()
        return self.counter, self.state.use

    def prefill_cost(self, wanted: list[RequestMessage]) -> PrefillCost:
        """The cost of prefilling these messages again, without the next prompt itself."""
        name = self.host.state.model_name or ""
        loaded = [] if self.state.gauges is None else self.state.gauges.models
        rate = next((m.prompt_rate for m in loaded if m.name == name), 0.0)
        return self._sent.price(wanted, name, self.counter.count, rate)
