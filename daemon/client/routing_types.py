"""Types of routing in the native API: providers, routes, explanations, totals of the ledger."""

from __future__ import annotations

from typing import Literal

import msgspec

from .answer import Answer


class RoutingProvider(Answer, frozen=True, kw_only=True):
    """A provider; `trouble` is why it is not `ready`; an `own` server belongs to the same owner."""

    name: str
    kind: str = ""
    own: bool = False
    models: list[str] = []
    ready: bool = True
    trouble: str = ""


class RoutingRoute(Answer, frozen=True, kw_only=True):
    """A route and the models it leads to now; `remote` is empty if no request leaves."""

    name: str
    local: str = ""
    remote: str = ""
    prefer: Literal["privacy", "cost", "speed", "quality", "local", "cloud"] = "local"
    escalate: list[str] = []
    redact: str = ""
    description: str = ""


class RoutingState(Answer, frozen=True, kw_only=True):
    """The policy in force; `enabled` is whether any request can leave this machine.

    `policy` is the path of its file, `policy_trouble` the error in it: then nothing leaves.
    """

    offline: bool = False
    enabled: bool = False
    policy: str = ""
    policy_exists: bool = False
    policy_trouble: str = ""
    providers: list[RoutingProvider] = []
    routes: list[RoutingRoute] = []
    classes: dict[str, str] = {}

    @property
    def has_choice(self) -> bool:
        """Whether any request could leave this machine."""
        return self.enabled and not self.offline and bool(self.providers)

    @property
    def names(self) -> list[str]:
        """Routes and remote models that a request can name, in addition to local models."""
        models = [f"{p.name}/{model}" for p in self.providers for model in p.models]
        return [route.name for route in self.routes] + models

    def of_chat(self, route: str, model: str | None) -> str:
        """The chat's chosen route, else its model if that is the name of a route, else ""."""
        return route or (model if model in self.names else "") or ""


class ExplainedFinding(Answer, frozen=True, kw_only=True):
    """Sensitive data in the part `where`, from character `start` up to `end`, and its class."""

    kind: str
    sensitivity: str = msgspec.field(name="class", default="")
    where: str = ""
    start: int = 0
    end: int = 0
    detector: str = ""


class ReplacedSpan(Answer, frozen=True):
    """Characters of the original text, from `start` up to `end`, and their placeholder's name."""

    start: int
    end: int
    name: str


class RedactedText(Answer, frozen=True):
    """A text as it would leave, with placeholders, and what they replace, in order."""

    where: str
    text: str
    replaced: list[ReplacedSpan] = []


class Explanation(Answer, frozen=True, kw_only=True):
    """The verdict about a request, and where it would be answered if it were sent now.

    `verdict` says on which conditions the text may leave. `goes_to` is `local` or `provider/model`.
    `consents` has a token for each verdict that consent can grant, and `redacted` the texts that
    would leave with placeholders. `hide` and `show` are the masks set and lifted by hand;
    a daemon that knows no such masks gives no `hide`.
    """

    verdict: Literal["local", "redact", "ask", "cloud"]
    rule: str = ""
    reason: str = ""
    sensitivity: str = msgspec.field(name="class", default="")
    tainted: bool = False
    findings: list[ExplainedFinding] = []
    route: str = ""
    provider: str = ""
    model: str = ""
    goes_to: str = "local"
    redacted: list[RedactedText] = []
    consents: dict[str, str] = {}
    hide: list[str] | None = None
    show: list[str] = []

    @property
    def target(self) -> str:
        """`provider/model` that would be asked, without a provider the model alone."""
        return "/".join(filter(None, (self.provider, self.model)))


class AnswerCost(Answer, frozen=True, kw_only=True):
    """The cost of a model's answers, prompts included, and of a million of their tokens.

    Of a local model since the daemon started, of a `remote` one for its latest answers.
    """

    name: str
    remote: bool = False
    tokens: int = 0
    cost: float = 0.0
    per_million: float = 0.0
    currency: str = ""

    @classmethod
    def of(cls, name: str, currency: str, tokens: int, cost: float, *, remote: bool) -> AnswerCost:
        """Return the cost of this number of tokens, which is not 0."""
        return cls(
            name=name,
            remote=remote,
            tokens=tokens,
            cost=round(cost, 9),
            per_million=round(cost / tokens * 1e6, 6),
            currency=currency,
        )


class EgressTotal(Answer, frozen=True, kw_only=True):
    """Sums of outbound requests; `cost` is the sum of known costs, null if none is known.

    `per_million` is the cost of a million tokens, null unless all costs are known.
    """

    requests: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    per_million: float | None = None
    unknown_costs: int = 0
    unknown_outcomes: int = 0


class ProviderTotal(EgressTotal, frozen=True, kw_only=True):
    """Sums of one provider."""

    name: str


class LedgerTotals(EgressTotal, frozen=True, kw_only=True):
    """Sums of one month (UTC), over all providers and of each.

    `local` are the costs of answers on this machine since the daemon started.
    """

    month: str = ""
    currency: str = ""
    providers: list[ProviderTotal] = []
    local: list[AnswerCost] = []


class RecordedDeparture(Answer, frozen=True, kw_only=True):
    """The number of the ledger's entry about what a tool sends."""

    entry: int = 0
