"""`RouteCommands`: where messages go, who is asked before one leaves, and what left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ..client.client_errors import ClientError
from ..client.routing_requests import (
    LedgerTotals,
    Routing,
    RoutingExplanation,
    read_routing,
    read_totals,
)
from ..history.database.history_errors import HistoryError
from ..privacy.chat_route import ASK, AUTO, LOCAL, chosen_route
from ..privacy.egress_summary import egress_sentence, ledger_sentence
from ..privacy.route_consent import request_with_consent

if TYPE_CHECKING:
    from ..chats.turn_request import TurnRequest
    from .plain_session import PlainSession

CHOICES = (AUTO, LOCAL, ASK)


class RouteCommands:
    """What the chat's feature of the same purpose does, in lines."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {"route": self._choose, "why": lambda _: self._why(), "sent": lambda _: self._sent()}

    def prepare(self, request: TurnRequest) -> TurnRequest:
        """What is asked in the place of `request`: what leaves has been shown before."""
        session = self._session
        routing = self._routing()
        route = routing.of_chat(session.chat.settings.route, request.model)
        if not route or not routing.has_choice:
            return request
        return session.wait(
            request_with_consent(session.client, request, route, self._ask, session.output.line)
        )

    async def _ask(self, said: RoutingExplanation) -> str:
        output, reader = self._session.output, self._session.reader
        if not reader.is_person:
            output.line(f"Answered here: nobody is there to ask. {said.reason}")
            return LOCAL
        output.line(f"{said.target} would see this. {said.reason}")
        if said.kinds:
            output.line(f"Found: {said.kinds}.")
        choices = [(LOCAL, "Answer here.")]
        if "redact" in said.consents:
            for part in said.redacted:
                output.line(f"With placeholders, {part.name}: {part.text}")
            choices.append(("redact", "Send with placeholders."))
        if "cloud" in said.consents:
            choices.append(("cloud", "Send as it is."))
        index = reader.choose("Where?", [words for _, words in choices])
        return LOCAL if index is None else choices[index][0]

    def _routing(self) -> Routing:
        try:
            return self._session.wait(read_routing(self._session.client))
        except ClientError:  # a daemon from before there were routes has none
            return Routing()

    def _choose(self, choice: str) -> None:
        session = self._session
        routing = self._routing()
        if not routing.has_choice:
            session.output.line(chosen_route(session.client.endpoint, routing, "").reason)
            return
        known = (*CHOICES, *routing.names)
        if choice and choice not in known:
            session.output.error(f"There is no route {choice}.", f"There are {', '.join(known)}.")
            return
        if choice:
            session.chat.settings.route = choice
            session.keep_settings()
        self._tell(routing)

    def _why(self) -> None:
        self._tell(self._routing())

    def _tell(self, routing: Routing) -> None:
        session = self._session
        route = chosen_route(session.client.endpoint, routing, session.chat.settings.route)
        session.output.line(f"Route: {route.word.lower()}. {route.reason}")

    def _sent(self) -> None:
        session = self._session
        kept: dict[str, int] | None = None
        if session.store is not None:
            with suppress(HistoryError):  # locked: then of this chat only
                kept = session.store.route_counts()
        session.output.line(egress_sentence(session.chat.messages.values(), kept))
        try:
            totals = session.wait(read_totals(session.client))
        except ClientError:  # it keeps no ledger
            totals = LedgerTotals()
        if totals.requests:
            session.output.line(ledger_sentence(totals))
