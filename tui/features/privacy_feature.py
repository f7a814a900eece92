"""`PrivacyFeature`: the route of messages, private data in the draft, and consent to send it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.routing_types import RoutingState

from ..chats.turn_request import TurnRequest
from ..commands import privacy_commands
from ..commands.privacy_commands import CHOICES, routing_of
from ..composing.file_mentions import find_mentions
from ..privacy.chat_route import ASK, AUTO, LOCAL, ChatRoute, previewed, request_with_consent
from ..widgets.route_line import RouteLine
from ..widgets.title_bar import TitleBar
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.timer import Timer

    from .chat_host import ChatHost

SCAN_SECONDS = 0.25
"""Minimum interval in seconds between two scans of the draft."""
QUICK = 4_000
"""The most characters that are scanned on the event loop; longer drafts are scanned in a thread."""
NEXT = {"": AUTO, LOCAL: AUTO, AUTO: ASK}
"""The choice after each one when `/route` has no argument; `LOCAL` after all others."""


class PrivacyFeature(Feature):
    """Shows the route of messages, and asks before one leaves; findings are hints."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._timer: Timer | None = None
        self._patterns_ready = False
        self._mentions: frozenset[str] = frozenset()
        self._files: list[str] = []
        self.routing = RoutingState()

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"route": self.choose_route}

    @property
    def route(self) -> ChatRoute:
        """The route of the next message."""
        return privacy_commands.route_of(self.host, self.routing)

    @property
    def _choice(self) -> str:
        return self.routing.of_chat(self.host.chat.settings.route, self.host.state.model_name)

    def on_ready(self) -> None:
        """See `Feature`."""
        self._show_route()

    def on_chat_opened(self) -> None:
        """See `Feature`."""
        self._show_route()

    def on_connected(self) -> None:
        """See `Feature`."""
        self.host.run_worker(self._learn_routes(), group="routing")

    async def _learn_routes(self) -> None:
        self.routing = await routing_of(self.host)
        self._show_route()

    def _show_route(self) -> None:
        # There are none if the daemon's answer comes while the chat is being closed.
        for line in self.host.query(RouteLine):
            line.route = self.route
        for bar in self.host.query(TitleBar):
            bar.route = self.route

    async def prepare_request(self, request: TurnRequest) -> TurnRequest:
        """See `Feature`: the daemon inspects the request, and the user consents if needed."""
        if not self.routing.has_choice:
            return request
        tell = partial(self.host.tell, severity="warning")
        return await request_with_consent(
            self.host.client, request, self._choice, self.host.front.pick_route, tell
        )

    def on_draft_changed(self, text: str) -> None:
        """See `Feature`."""
        if not text.strip():
            self._show(None)
        elif self._timer is None:
            # Behind the key's own repaint, and once for all keys until then.
            self._timer = self.host.set_timer(SCAN_SECONDS, self._look)

    def on_closing(self) -> None:
        """See `Feature`."""
        if self._timer is not None:
            self._timer.stop()

    async def choose_route(self, argument: str) -> None:
        """`/route`: set where messages of this chat may go; without an argument the next choice."""
        await self._learn_routes()  # a provider may have been added since
        choice = argument or NEXT.get(self._choice, LOCAL)
        await self.host.present(privacy_commands.route(self.host, choice))
        self._show_route()

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
            self.host.run_worker(self._look_in_thread(draft, texts), group="privacy")

    async def _look_in_thread(self, draft: str, texts: list[str]) -> None:
        if "@" in draft:
            await asyncio.sleep(SCAN_SECONDS)  # until the composer has seen which files there are
            texts = texts + await self._mentioned(draft)
        found = await asyncio.to_thread(_found_in, texts)
        self._patterns_ready = True
        if self.host.composer.text == draft:
            self._show(found)

    async def _mentioned(self, draft: str) -> list[str]:
        """The texts of the mentioned files; read again when the mentions change."""
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
        if line is None:
            return
        line.found = found
        if not self.routing.has_choice or self._choice in ("", LOCAL):
            return
        draft = self.host.composer.text
        if draft.strip() and not draft.startswith("/"):
            self.host.run_worker(self._preview_route(draft), group="route")
        else:
            line.route = self.route

    async def _preview_route(self, draft: str) -> None:
        """Show the route of this draft; the daemon inspects all of it again when it is sent."""
        chat = self.host.chat
        named = {} if self._choice in CHOICES else {"model": self._choice}
        body = {"text": draft, "conversation": chat.label, **named}
        try:
            said = await self.host.client.explain_routing(body)
        except ClientError:
            return  # it is reported when the draft is sent
        line = self._line()
        if line is not None and self.host.composer.text == draft and self.host.chat is chat:
            line.route = previewed(self.route, said)

    def _line(self) -> RouteLine | None:
        return next(iter(self.host.query(RouteLine)), None)


def _found_in(texts: list[str]) -> str:
    # Compiling the patterns takes longer than a key may: the first call is made in a thread.
    from ..privacy.pii_scanner import scan, summarize

    return summarize(chain.from_iterable(map(scan, texts)))
