"""Privacy commands: the route of messages and its reason, data sent, preview of redaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ingle.daemon.client.client_errors import ClientError, DaemonUnreachable
from ingle.daemon.client.routing_types import LedgerTotals, RoutingState

from ..history.database.history_errors import HistoryError
from ..privacy.chat_route import (
    ASK,
    AUTO,
    LOCAL,
    ChatRoute,
    chosen_route,
    egress_sentence,
    ledger_sentence,
)
from .chat_session import ChatSession, keep_settings
from .command_results import CommandRefused, Done

CHOICES = (AUTO, LOCAL, ASK)


async def routing_of(session: ChatSession) -> RoutingState:
    """The routes that the daemon offers; empty for a daemon without routing."""
    try:
        return await session.client.routing()
    except ClientError:
        return RoutingState()


def route_of(session: ChatSession, routing: RoutingState) -> ChatRoute:
    """The route of the next message."""
    choice = routing.of_chat(session.chat.settings.route, session.state.model_name)
    return chosen_route(session.client.endpoint, routing, choice)


def route_sentence(route: ChatRoute) -> str:
    """A route and its reason."""
    return f"Route: {route.word.lower()}. {route.reason}"


async def route(session: ChatSession, choice: str) -> Done:
    """Set where messages of this chat may go; without a choice, report the route."""
    routing = await routing_of(session)
    known = (*CHOICES, *routing.names)
    if choice and choice not in known:
        there = ", ".join(dict.fromkeys(known))
        raise CommandRefused(f"There is no route {choice}.", f"/route takes {there}.")
    session.state.kept_here.clear()
    if choice and routing.has_choice:
        session.chat.settings.route = choice
        keep_settings(session)
    return Done(route_sentence(route_of(session, routing)), "state")


async def why(session: ChatSession, _argument: str) -> Done:
    """Explain the route of the next message."""
    return Done(route_sentence(route_of(session, await routing_of(session))))


async def sent(session: ChatSession, _argument: str) -> Done:
    """Report the messages that left this machine: of this chat, all kept chats, all programs."""
    kept: dict[str, int] | None = None
    if session.store is not None:
        with suppress(HistoryError):  # locked: then of this chat only
            kept = await asyncio.to_thread(session.store.route_counts)
    sentence = egress_sentence(list(session.chat.messages.values()), kept)
    try:
        totals = await session.client.ledger_totals()
    except ClientError:  # a daemon without a ledger
        totals = LedgerTotals()
    return Done(f"{sentence} {ledger_sentence(totals)}" if totals.requests else sentence)


async def redact(session: ChatSession, text: str) -> Done:
    """Show a text, the draft, or else the last prompt, with masks over private data."""
    prompts = [message for message in session.chat.path if message.role == "user"]
    text = text or await session.front.draft() or (prompts[-1].text if prompts else "")
    if not text:
        raise CommandRefused("There is no text to inspect.", "Type a draft first.")
    from ..privacy.text_review import TextReview

    try:
        review = await TextReview.of_text(session.client, text)
    except DaemonUnreachable as error:
        hint = "The daemon finds private data; `ingle serve` starts it."
        raise CommandRefused(error.message, hint) from error
    await session.front.show_redaction(review)
    return Done()
