"""`PrivacyFeature`: the route of messages, private data in the draft, and consent to send it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.routing_types import Explanation, RoutingState

from ..chats.turn_request import TurnRequest
from ..commands import privacy_commands
from ..commands.privacy_commands import CHOICES, routing_of
from ..composing.file_mentions import find_mentions
from ..privacy.chat_route import (
    ASK,
    AUTO,
    LOCAL,
    ChatRoute,
    kinds_found,
    previewed,
    request_with_consent,
    route_to,
)
from ..widgets.route_line import RouteLine
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.timer import Timer

    from .chat_host import ChatHost

SCAN_SECONDS = 0.25
"""Minimum interval in seconds between two scans of the draft."""
NEXT = {"": AUTO, LOCAL: AUTO, AUTO: ASK}
"""The choice after each one when `/route` has no argument; `LOCAL` after all others."""


class PrivacyFeature(Feature):
    """Shows the route of messages, and asks before one leaves; findings are hints."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._timer: Timer | None = None
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

    @property
    def _is_inspected(self) -> bool:
        """Whether drafts are: not where nothing could leave, nor on another machine."""
        return self.routing.has_choice and route_to(self.host.client.endpoint).kind == "local"

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

    async def prepare_request(self, request: TurnRequest) -> TurnRequest:
        """See `Feature`: the daemon inspects the request, and the user consents if needed."""
        if not self.routing.has_choice:
            return request
        host = self.host
        tell = partial(host.tell, severity="warning")
        return await request_with_consent(
            host.client, request, self._choice, host.front.pick_route, tell, host.state.kept_here
        )

    def on_draft_changed(self, text: str) -> None:
        """See `Feature`."""
        if not text.strip():
            self._show(None)
        elif self._timer is None and self._is_inspected:
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
        if self.host.composer.text.strip():
            self.host.run_worker(self._inspect_draft(), group="privacy")
        else:
            self._timer = None
            self._show(None)

    async def _inspect_draft(self) -> None:
        """Show what the daemon finds in the draft; all of it is inspected again when it is sent."""
        composer, chat = self.host.composer, self.host.chat
        draft = composer.text
        said: Explanation | None = None
        if "@" in draft:
            await asyncio.sleep(SCAN_SECONDS)  # until it is known which files there are
        with suppress(ClientError):  # it is reported when the draft is sent
            said = await self.host.client.explain_routing(await self._body(draft))
        self._timer = None
        if composer.text == draft and self.host.chat is chat:
            self._show(said if draft.strip() else None)
        else:
            self.on_draft_changed(composer.text)

    async def _body(self, draft: str) -> dict[str, object]:
        chips = self.host.composer.chips.attachments(draft)
        texts = [draft, *(chip.text for chip in chips)]
        texts += await self._mentioned(draft) if "@" in draft else []
        choice = self._choice
        return {
            "messages": [{"role": "user", "content": text} for text in texts if text],
            "conversation": self.host.chat.label,
            "private": self.host.chat.temporary,
            **({"route": choice} if choice in CHOICES else {"model": choice} if choice else {}),
        }

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

    def _show(self, said: Explanation | None) -> None:
        line = self._line()
        if line is None:
            return
        line.found = None if said is None else kinds_found(said)
        line.route = self.route
        chosen = self._choice not in ("", LOCAL) and not self.host.composer.text.startswith("/")
        if said is not None and chosen:
            line.route, line.found = previewed(self.route, said), ""

    def _line(self) -> RouteLine | None:
        return next(iter(self.host.query(RouteLine)), None)
