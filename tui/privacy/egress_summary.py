"""Sentences about the messages that left this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ingle.daemon.client.routing_types import LedgerTotals

from ..chats.message import Message
from ..text import number_format


def egress_sentence(messages: Iterable[Message], kept: Mapping[str, int] | None = None) -> str:
    """Return where a chat's answers were generated; `kept` counts all chats' answers by route, if
    known.
    """
    answers = [message for message in messages if message.role == "assistant" and message.ending]
    routes = Counter(message.facts.route or "local" for message in answers)
    away = {route: count for route, count in routes.items() if route != "local"}
    if away:
        told = ", ".join(f"{count} by {route}" for route, count in sorted(away.items()))
        return f"Answered elsewhere in this chat: {told}; here: {routes['local']}."
    here = f"{len(answers)} answer{'' if len(answers) == 1 else 's'}"
    return (
        f"Nothing of this chat left this machine: {here}, all made here.{_of_all(kept)} "
        "Only a download asks the network, for a model's file by its name."
    )


def ledger_sentence(totals: LedgerTotals) -> str:
    """Return what left this machine this month, by the daemon's ledger."""
    parts = ", ".join(
        f"{number_format.size(provider.bytes_out)} to {provider.name}"
        for provider in totals.providers
    )
    cost = f" for {totals.cost:.2f} {totals.currency}" if totals.cost else ""
    times = "once" if totals.requests == 1 else f"{totals.requests} times"
    return f"Everything on this machine, this month, {times}: {parts}{cost}; see `ingle ledger`."


def _of_all(kept: Mapping[str, int] | None) -> str:
    if kept is None:
        return ""
    away = sum(count for route, count in kept.items() if route != "local")
    here = number_format.tokens(kept.get("local", 0))
    return f" In all chats: {here} here, {number_format.tokens(away)} elsewhere."
