"""The route of a chat's messages: local or remote, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.routing_types import Explanation, LedgerTotals, RoutingState

from ..chats.message import Message
from ..chats.turn_request import TurnRequest
from ..text import number_format

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient

    from .text_review import TextReview


# Kinds whose names in the daemon are not clear to a user.
_KIND_WORDS = {
    "api_key": "API key",
    "jwt": "signed token",
    "card": "card number",
    "iban": "IBAN",
    "national_id": "national ID",
    "tax_id": "tax number",
    "health_id": "health insurance number",
    "email": "e-mail address",
    "phone": "phone number",
    "vehicle": "number plate",
    "ip_address": "IP address",
    "mac_address": "hardware address",
    "secret_path": "path of a secret file",
    "law": "legal matter",
    "work": "work papers",
    "confidential": "marked confidential",
    "personal": "personal matters",
    "masked": "masked by you",
    "own_word": "word from your list",
    "own_folder": "folder from your list",
    "uninspectable": "something unreadable",
}


def kinds_found(explanation: Explanation) -> str:
    """Return the kinds of sensitive data that were found, each once, separated by commas."""
    kinds = dict.fromkeys(found.kind for found in explanation.findings)
    return ", ".join(_KIND_WORDS.get(kind, kind.replace("_", " ")) for kind in kinds)


_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "[::1]", "localhost"})

LOCAL, AUTO, ASK = "local", "auto", "ask"
"""Values of a chat's route, beside the name of a route or of a provider's model."""


class ChatRoute(NamedTuple):
    """`kind` is stored with a message's facts; `mark` and `word` show it above the draft.

    `promise` is its consequence, `reason` a sentence about why, and `short` the reason in two
    words.
    """

    kind: str
    mark: str
    word: str
    promise: str
    reason: str
    short: str


def route_to(endpoint: str) -> ChatRoute:
    """Return the route to the daemon at a socket's path or at `host:port`."""
    host = endpoint.rpartition(":")[0]
    if "/" in endpoint or "\\" in endpoint or host in _THIS_MACHINE:
        return ChatRoute(
            "local",
            "⌂",
            "LOCAL",
            "nothing leaves this machine",
            "The model runs on this machine, and no cloud provider is configured.",
            "no provider set up",
        )
    return ChatRoute(
        "remote",
        "☁",
        "OTHER MACHINE",
        f"goes to the daemon at {endpoint}",
        f"The chat was started with the daemon at {endpoint}, which is not on this machine; "
        "no cloud provider is configured.",
        "daemon elsewhere",
    )


def chosen_route(endpoint: str, routing: RoutingState, choice: str) -> ChatRoute:
    """Return the route of a chat's messages for `choice`, "" if not chosen."""
    base = route_to(endpoint)
    if base.kind != "local" or not routing.has_choice:
        return base
    clouds = ", ".join(provider.name for provider in routing.providers)
    if choice in ("", LOCAL):
        return base._replace(
            reason=f"This chat is answered here. /route auto would let {clouds} answer what "
            "the policy lets go.",
            short="chosen",
        )
    if choice == AUTO:
        return ChatRoute(
            "auto",
            "⇄",
            "AUTO",
            "what is sensitive stays here",
            f"The policy checks each message: what it allows may be answered by {clouds}.",
            "policy",
        )
    if choice == ASK:
        return ChatRoute(
            "ask",
            "⇄",
            "ASK",
            "you are asked before anything leaves",
            f"Before a message goes to {clouds} you see what would leave, and decide; the answer "
            "holds for what is like it in this chat.",
            "asked",
        )
    return ChatRoute(
        "named",
        "☁",
        choice.upper(),
        "sent there if the policy allows it",
        f"You chose {choice}; what the policy keeps local is not sent.",
        "chosen",
    )


def previewed(route: ChatRoute, said: Explanation) -> ChatRoute:
    """Return the route as the daemon predicts it for the present draft."""
    verdict = said.verdict
    if verdict in ("ask", "cloud"):
        verdict = "cloud" if said.goes_to != "local" else "ask" if said.consents else "local"
    found = kinds_found(said) or route.promise
    target = said.target or "the cloud"
    mark, word, promise = {
        "redact": ("⇄", "WITH PLACEHOLDERS", f"{target} gets none of: {found}"),
        "ask": ("⇄", "ASKS FIRST", found),
        "cloud": ("☁", "GOES OUT", f"to {target}"),
    }.get(verdict, ("⌂", "STAYS HERE", found))
    kind = "local" if mark == "⌂" else route.kind
    return ChatRoute(
        kind, mark, word, promise, said.reason or route.reason, said.rule or route.short
    )


Choose = Callable[["TextReview"], Awaitable[str]]
"""Asks the user, who may change masks; returns a key of its consents, or "local"."""


async def request_with_consent(
    client: AsyncDaemonClient,
    request: TurnRequest,
    route: str,
    choose: Choose,
    tell: Callable[[str], None],
    kept_here: dict[tuple[str, str], frozenset[str]],
) -> TurnRequest:
    """Return the request for this route; if the route cannot be decided, a local one.

    Nothing has left this machine when this returns. `kept_here` are the kinds that the user did
    not let out, by conversation and target: they are not asked about again.
    """
    if route == "":
        return request
    here = msgspec.structs.replace(request, route=LOCAL)
    if route == LOCAL:
        return here
    asked = msgspec.structs.replace(
        request,
        model=AUTO if route in (AUTO, ASK) else route,
        route=route if route in (AUTO, ASK) else "",
    )
    from .text_review import TextReview

    try:
        review = await TextReview.of_messages(client, asked.body(), asked.messages)
    except ClientError as error:
        tell(f"Answered here, since the route could not be decided: {error.message}")
        return here
    said = review.said
    if said.goes_to != "local":  # harmless, or consented to earlier in this chat
        return asked
    kinds = frozenset(found.kind for found in said.findings)
    chat = (request.conversation, said.target)
    earlier = kept_here.get(chat)
    if earlier is not None and kinds <= earlier:
        tell("Answered here, as you chose before in this chat; /route asks again.")
        return here
    if not said.consents:
        return here
    choice = await choose(review)
    consent = review.said.consents.get(choice)
    if consent is None:
        kept_here[chat] = kinds | (earlier or frozenset())
        return here
    return msgspec.structs.replace(asked, consent=consent)


def egress_sentence(messages: Iterable[Message], kept: Mapping[str, int] | None = None) -> str:
    """Return where a chat's answers were generated; `kept` counts all chats' answers by route, if
    known.
    """
    answers = [message for message in messages if message.role == "assistant" and message.ending]
    routes = Counter(message.facts.route or "local" for message in answers)
    away = {route: count for route, count in routes.items() if route != "local"}
    if away:
        elsewhere = ", ".join(f"{count} by {route}" for route, count in sorted(away.items()))
        return f"Answers in this chat: {elsewhere}; {routes['local']} by this machine."
    here = number_format.counted(len(answers), "answer")
    return (
        f"Nothing of this chat left this machine: {here}, all generated here.{_of_all(kept)} "
        "Only downloads of models use the network."
    )


def ledger_sentence(totals: LedgerTotals) -> str:
    """Return the amounts of data that left this machine this month, by the daemon's ledger."""
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
