"""`PrivacyFeature`: where messages go, what was found in the draft, what left this machine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from .. import wording
from ..chats.message import Message
from ..composing.mentions import find_mentions
from ..history.errors import HistoryError
from ..privacy.route import Route, route_to
from ..widgets.route_line import RouteLine
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.timer import Timer

    from ..host import ChatHost

SCAN_SECONDS = 0.25
"""The draft is looked at so often at most."""
QUICK = 4_000
"""Characters that are looked at in passing; a longer draft is looked at in a thread."""
CHOICES = ("auto", "local", "ask")


class PrivacyFeature(Feature):
    """Everything is local, and this says so; what was found is a hint for the writer."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._timer: Timer | None = None
        self._patterns_ready = False
        self._mentions: frozenset[str] = frozenset()
        self._files: list[str] = []

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            "route": self.choose_route,
            "why": self.explain,
            "redact": self.preview,
            "sent": self.tell_what_left,
        }

    @property
    def route(self) -> Route:
        """Where the next message goes."""
        return route_to(self.host.client.endpoint)

    def on_ready(self) -> None:
        """See `Feature`."""
        line = self._line()
        if line is not None:
            line.route = self.route

    def on_draft_changed(self, text: str) -> None:
        """See `Feature`."""
        if not text.strip():
            self._show(None)
        elif self._timer is None:
            # Behind the key's own repaint, and once for all keys until then.
            self._timer = self.host.composer.set_timer(SCAN_SECONDS, self._look)

    def on_closing(self) -> None:
        """See `Feature`."""
        if self._timer is not None:
            self._timer.stop()

    def choose_route(self, argument: str) -> None:
        """`/route`: the choice there is."""
        if argument and argument not in CHOICES:
            self.host.tell("/route takes auto, local or ask.", "warning")
            return
        route = self.route
        if route.kind != "local":
            self.host.tell(f"{route.mark} {route.word}: {route.reason}")
            return
        answer = {
            "": "There is one route now: this machine. No cloud provider is configured.",
            "local": "Local only: it is the one route there is now.",
        }.get(argument, "No cloud provider is configured, so there is nothing to choose from.")
        self.host.tell(f"{route.mark} {route.word}: {answer}")

    def explain(self, _argument: str) -> None:
        """`/why`: what decided where the message goes."""
        route = self.route
        model = self.host.state.model_name or "the model"
        self.host.tell(f"{route.mark} {model}: {route.reason}")

    async def tell_what_left(self, _argument: str) -> None:
        """`/sent`: what left the machine, of this chat and of all that are kept."""
        answers = [m for m in self.host.chat.messages.values() if m.role == "assistant"]
        routes = Counter(message.facts.route or "local" for message in answers)
        away = {route: count for route, count in routes.items() if route != "local"}
        if away:
            told = ", ".join(f"{count} by {route}" for route, count in sorted(away.items()))
            self.host.tell(f"Answered elsewhere in this chat: {told}; here: {routes['local']}.")
            return
        here = f"{len(answers)} answer{'' if len(answers) == 1 else 's'}"
        self.host.tell(
            f"Nothing of this chat left this machine: {here}, all made here.{await self._all()} "
            "Only a download asks the network, for a model's file by its name."
        )

    async def _all(self) -> str:
        """The same of all chats, where they are kept and can be read."""
        store = self.host.store
        if store is None:
            return ""
        try:
            routes = await asyncio.to_thread(store.route_counts)
        except HistoryError:
            return ""
        away = sum(count for route, count in routes.items() if route != "local")
        here = wording.tokens(routes.get("local", 0))
        return f" In all chats: {here} here, {wording.tokens(away)} elsewhere."

    def preview(self, _argument: str) -> None:
        """`/redact`: the draft, or else the last prompt, with masks."""
        self.host.run_task(self._preview(), group="redact")

    async def _preview(self) -> None:
        text = await self._text_to_preview()
        if not text:
            self.host.tell("There is no text to look at: write something first.", "warning")
            return
        from ..privacy.scanner import scan
        from ..screens.redaction import RedactionScreen

        findings = await asyncio.to_thread(scan, text)
        self.host.show_screen(RedactionScreen(text, findings), self._copy)

    async def _text_to_preview(self) -> str:
        """What the model would read of the draft, with its files; else of the last prompt."""
        composer = self.host.composer
        if composer.text.strip():
            attachments, _ = await composer.attaching.read(composer.text)
            return Message(role="user", content=composer.text.strip(), attachments=attachments).text
        prompts = [message for message in self.host.chat.path if message.role == "user"]
        return prompts[-1].text if prompts else ""

    def _copy(self, text: str | None) -> None:
        if text is not None:
            self.host.copy(text)

    def _look(self) -> None:
        self._timer = None
        composer = self.host.composer
        draft = composer.text
        texts = [draft, *(chip.text for chip in composer.chips.attachments(draft))]
        if not draft.strip():
            self._show(None)
        elif self._patterns_ready and "@" not in draft and sum(map(len, texts)) <= QUICK:
            self._show(_found_in(texts))
        else:
            self.host.run_task(self._look_in_thread(draft, texts), group="privacy")

    async def _look_in_thread(self, draft: str, texts: list[str]) -> None:
        if "@" in draft:
            await asyncio.sleep(SCAN_SECONDS)  # until the composer has seen which files there are
            texts = texts + await self._mentioned(draft)
        found = await asyncio.to_thread(_found_in, texts)
        self._patterns_ready = True
        if self.host.composer.text == draft:
            self._show(found)

    async def _mentioned(self, draft: str) -> list[str]:
        """What is in the files that the draft mentions; they are read again when others are."""
        composer = self.host.composer
        paths = (mention.path for mention in find_mentions(draft))
        mentions = frozenset(paths) & composer.mentioned
        if mentions != self._mentions:
            attachments, _ = await composer.attaching.read(draft)
            chips = composer.chips.attachments(draft)
            self._mentions = mentions
            self._files = [file.text for file in attachments if file not in chips]
        return self._files

    def _show(self, found: str | None) -> None:
        line = self._line()
        if line is not None:
            line.found = found

    def _line(self) -> RouteLine | None:
        screen = self.host.composer.screen
        return next(iter(screen.query(RouteLine).results()), None)


def _found_in(texts: list[str]) -> str:
    # Compiling the patterns takes longer than a key may: the first call is made in a thread.
    from ..privacy.scanner import scan, summarize

    return summarize(chain.from_iterable(map(scan, texts)))
