"""What the daemon tells about routes: which there are, what it decides of a text, what left."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .api_types import Payload
from .daemon_client import AsyncDaemonClient

_MESSAGE = re.compile(r"messages\[(\d{1,9})\]\.content")

# What the daemon's names of kinds do not say well by themselves, after "Found:".
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
    "own_word": "word from your list",
    "own_folder": "folder from your list",
    "uninspectable": "something unreadable",
}

Choice = str
"""The person's decision: one of the verdicts in `RoutingExplanation.consents`, or "local"."""


class RoutingProvider(Payload, frozen=True, kw_only=True):
    """Whose models may be asked; `own` is a machine of the same owner."""

    name: str
    own: bool = False
    models: list[str] = msgspec.field(default_factory=list[str])
    ready: bool = True
    trouble: str = ""


class NamedRoute(Payload, frozen=True, kw_only=True):
    """A name to ask for instead of a model; `remote` is "" where it never leaves this machine."""

    name: str
    local: str = ""
    remote: str = ""
    prefer: str = "local"
    description: str = ""


class Routing(Payload, frozen=True, kw_only=True):
    """The routes in force; without `enabled` nothing leaves, whatever is asked for."""

    offline: bool = False
    enabled: bool = False
    policy: str = ""
    providers: list[RoutingProvider] = msgspec.field(default_factory=list[RoutingProvider])
    routes: list[NamedRoute] = msgspec.field(default_factory=list[NamedRoute])

    @property
    def has_choice(self) -> bool:
        """Whether anything could leave this machine at all."""
        return self.enabled and not self.offline and bool(self.providers)

    @property
    def names(self) -> list[str]:
        """What can be asked for by name, beside the models here."""
        models = [f"{p.name}/{model}" for p in self.providers for model in p.models]
        return [route.name for route in self.routes] + models

    def of_chat(self, route: str, model: str | None) -> str:
        """The route of a chat that chose `route`, or none but a model that is one by its name."""
        return route or (model if model in self.names else "") or ""


class DetectedKinds(Payload, frozen=True, kw_only=True):
    """Something in a text, from character `start` to `end` of the part that `where` names."""

    kind: str
    where: str = ""
    start: int = 0
    end: int = 0


class RedactedPart(Payload, frozen=True, kw_only=True):
    """A part of the request as it would leave."""

    where: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands, in words where there are some."""
        message = _MESSAGE.fullmatch(self.where)
        return f"message {int(message[1]) + 1}" if message else self.where


class RoutingExplanation(Payload, frozen=True, kw_only=True):
    """What the policy says of a request: nothing has been sent yet.

    `consents` has a token for each verdict that a yes would turn this one into.
    """

    verdict: str
    rule: str = ""
    reason: str = ""
    tainted: bool = False
    findings: list[DetectedKinds] = msgspec.field(default_factory=list[DetectedKinds])
    provider: str = ""
    model: str = ""
    goes_to: str = "local"
    redacted: list[RedactedPart] = msgspec.field(default_factory=list[RedactedPart])
    consents: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def target(self) -> str:
        """Who would be asked, where it is not this machine."""
        return "/".join(filter(None, (self.provider, self.model)))

    @property
    def kinds(self) -> str:
        """What was found, each kind once, in words."""
        kinds = dict.fromkeys(found.kind for found in self.findings)
        return ", ".join(_KIND_WORDS.get(kind, kind.replace("_", " ")) for kind in kinds)


class ProviderTotal(Payload, frozen=True, kw_only=True):
    """What went to one provider in a month; `cost` is None where its prices are not known."""

    name: str
    requests: int = 0
    bytes_out: int = 0
    cost: float | None = None


class LedgerTotals(Payload, frozen=True, kw_only=True):
    """What left this machine in a month, by the daemon's ledger."""

    month: str = ""
    requests: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    cost: float | None = None
    currency: str = ""
    providers: list[ProviderTotal] = msgspec.field(default_factory=list[ProviderTotal])


async def read_routing(client: AsyncDaemonClient) -> Routing:
    """The routes there are; raises `ClientError`."""
    return await client.request(Routing, "GET", "/ingle/v1/routing")


async def explain(client: AsyncDaemonClient, body: Mapping[str, object]) -> RoutingExplanation:
    """What would become of a request, or of `{"text": …}`; raises `ClientError`."""
    return await client.request(RoutingExplanation, "POST", "/ingle/v1/routing/explain", dict(body))


async def read_totals(client: AsyncDaemonClient) -> LedgerTotals:
    """What left this month; raises `ClientError`."""
    return await client.request(LedgerTotals, "GET", "/ingle/v1/ledger/totals")
