"""Decides where each request is answered, before anything is sent; if in doubt, locally."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from ingle.backends.base.events import EventSink
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.providers import Provider

from ..access.permission import current_permission
from .detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from .detectors.own_words import OwnWords
from .egress.egress_gateway import EgressGateway
from .egress.outbound_request import OutboundRequest, make_outbound_request
from .egress.placeholders import PlaceholderMemories
from .inspection.privacy_judge import Generate, is_judged_private
from .inspection.request_inspector import RequestInspector
from .inspection.request_parts import parts_digest
from .plan_maker import plan_for_decision
from .policy.answer_choice import AnswerEstimates
from .policy.consents import ConsentScope, ConsentStore, consent_binding
from .policy.conversation_taint import ConversationMarks, TaintStore, text_traces
from .policy.mask_edits import MaskEdits
from .policy.policy import Policy, Verdict
from .policy.policy_file import PolicyError
from .policy.policy_tables import AUTO
from .policy.route_resolver import PolicySource, RouteResolver, RouteTarget
from .policy.routing_plan import InspectedDecision, RoutingPlan, local_plan, refused
from .policy.routing_preference import NO_PREFERENCE, RoutingPreference

log = logging.getLogger("ingle.daemon")


ASKED_FOR_LOCAL = "asked_for_local"
"""The rule of a request that asks to stay local, even if it names a provider's model."""

_FREE = frozenset({Sensitivity.ALLOW, Sensitivity.MASK})
"""Classes of what leaves without consent."""
_SHUT = Policy(classes={}, least_certainty=0.0)
"""In force while the policy cannot be read: any finding keeps a request local."""

EstimateAnswers = Callable[
    [InspectedDecision, Sequence[GenerateRequest]], Awaitable[AnswerEstimates | None]
]


async def _no_estimates(considered: InspectedDecision, requests: object) -> None:
    return None


class Router:
    """Routes requests by the policy; for the event loop only."""

    def __init__(
        self,
        *,
        policy: PolicySource,
        names: RouteResolver,
        egress: EgressGateway,
        taint: TaintStore,
        inspector: RequestInspector | None = None,
        consents: ConsentStore | None = None,
    ) -> None:
        self.policy = policy
        self.names = names
        self.egress = egress
        self.consents = consents or ConsentStore()
        self.memories = PlaceholderMemories()
        self.find_judge: Callable[[bool | str], Generate | None] = lambda judge: None
        """Returns the model that judges privacy, for a route's `judge`."""
        self.estimate: EstimateAnswers = _no_estimates
        """Estimates both sides for routes that weigh them; see `AnswerEstimator`."""
        self._taint = taint
        self._marks = ConversationMarks(taint)
        self._inspector = inspector or RequestInspector(self._own_words)

    def providers(self) -> Sequence[Provider]:
        """Return the providers; none if their list cannot be read, which is logged."""
        try:
            return self.egress.providers()
        except Exception as error:
            log.warning(
                "The providers cannot be read: %s", getattr(error, "message", type(error).__name__)
            )
            return ()

    def ready(self) -> list[Provider]:
        """Return the providers that are usable now and have a model."""
        return [p for p in self.providers() if p.models and not self.egress.trouble(p)]

    def stand_in(self, name: str) -> str | None:
        """Return the local model behind the name of a route or of a provider's model.

        None for other names. Thread-safe.
        """
        target = self.names.find(name, self.providers())
        return target.local if target is not None else None

    def concerns(self, name: str, preference: RoutingPreference = NO_PREFERENCE) -> bool:
        """Whether a request for this model has to be routed at all; scans nothing."""
        if preference.route in ("auto", "ask"):
            return True
        return self.names.find(name, self.providers()) is not None

    def target(self, name: str, preference: RoutingPreference = NO_PREFERENCE) -> RouteTarget:
        """Return the target of a name; a name that is no route uses `auto` with that local
        model.
        """
        providers = self.providers()
        found = self.names.find(name, providers)
        if found is not None and found.named:
            return found
        route = found.route if found is not None else self._policy().routes[AUTO]
        # A route without a provider uses the first that is usable.
        usable = providers if route.cloud else self.ready() or providers
        return self.names.of_route(route, usable, local="" if found is not None else name)

    def targets(self) -> list[RouteTarget]:
        """Return the routes that can leave now; none without a usable provider."""
        if not self.ready():
            return []
        found = [self.target(name) for name in self._policy().routes]
        return [target for target in found if target.provider]

    async def consider(
        self,
        target: RouteTarget,
        requests: Sequence[GenerateRequest],
        *,
        preference: RoutingPreference = NO_PREFERENCE,
        opaque: str = "",
        edits: MaskEdits | None = None,
    ) -> InspectedDecision:
        """Inspect all requests, and decide. Never raises: an error becomes a finding.

        Without `edits` those of the consent, else of the conversation.
        """
        if edits is None:
            edits = self.consents.edits(preference.consent, _conversation(requests), target.remote)
        policy = self._policy()
        inspected = [await self._inspector.inspect(request, opaque) for request in requests]
        inspected = [edits.applied(one, policy.public_words) for one in inspected]
        taint = await self._marks.strictest(inspected)
        findings = [finding for one in inspected for finding in one.findings]
        decision = policy.decide(findings, route=target.route, taint=taint)
        return InspectedDecision(
            target=target,
            policy=policy,
            inspected=tuple(inspected),
            decision=decision,
            edits=edits,
        )

    async def judged(self, considered: InspectedDecision) -> InspectedDecision:
        """Let a local model judge what would leave, if the route wants that.

        The model can keep a request local, but never release one.
        """
        parts = [part for one in considered.inspected for part in one.parts]
        free = considered.decision.sensitivity in _FREE
        judge = considered.target.route.judge
        generate = self.find_judge(judge) if judge and free else None
        if generate is None or not parts:
            return considered
        text, strict = "\n\n".join(part.text for part in parts), judge is not True
        if not await is_judged_private(generate, text, strict=strict):
            return considered
        found = SensitiveFinding(
            FindingKind.PERSONAL, 0, len(parts[0].text), "personal", detector="judge"
        )
        decision = considered.policy.decide(
            [*considered.decision.findings, found], route=considered.target.route
        )
        return replace(considered, decision=decision)

    async def plan(
        self,
        name: str,
        requests: Sequence[GenerateRequest],
        *,
        preference: RoutingPreference = NO_PREFERENCE,
        opaque: str = "",
    ) -> RoutingPlan:
        """Return the plan of a request; taints its conversation if required.

        Raises `RouteRefused` if its name chose a provider's model to which it may not be sent.
        """
        target = self.target(name, preference)
        plan = self._plan_uninspected(target, requests, preference)
        if plan is None:
            considered = await self.consider(target, requests, preference=preference, opaque=opaque)
            considered = await self.judged(considered)
            estimates = await self.estimate(considered, requests)
            yes = self._consented_verdict(considered, requests, preference)
            plan = plan_for_decision(considered, requests, preference, estimates, yes)
            plan = await self.tainting(plan)
        elif plan.rule == "private":
            await self._marks.mark_private(requests)
        if target.named and plan.outbound_verdict is None and plan.rule != ASKED_FOR_LOCAL:
            raise refused(plan)
        return plan

    async def preview(
        self,
        name: str,
        request: GenerateRequest,
        *,
        preference: RoutingPreference = NO_PREFERENCE,
        edits: MaskEdits | None = None,
    ) -> tuple[InspectedDecision, RoutingPlan]:
        """Return the decision and plan that a request would get now, without side effects."""
        target = self.target(name, preference)
        considered = await self.consider(target, [request], preference=preference, edits=edits)
        plan = self._plan_uninspected(target, [request], preference)
        if plan is None:
            estimates = await self.estimate(considered, [request])
            yes = self._consented_verdict(considered, [request], preference)
            plan = plan_for_decision(considered, [request], preference, estimates, yes)
        return considered, plan

    async def taint_private(self, requests: Sequence[GenerateRequest]) -> None:
        """Taint the conversation of a private request: what continues it stays local as well."""
        if any(request.private for request in requests) and self.providers():
            await self._marks.mark_private(requests)

    def binding(self, considered: InspectedDecision, *, override: bool = False) -> bytes:
        """Return what a consent to this decision is bound to."""
        digest = parts_digest(part for one in considered.inspected for part in one.parts)
        return consent_binding(digest, considered.decision, considered.target.remote, override)

    def provider(self, plan: RoutingPlan) -> Provider:
        """Return the provider of a plan that leaves; raises `RouteRefused` if it was removed
        meanwhile.
        """
        for provider in self.providers():
            if provider.name == plan.target.provider:
                return provider
        raise refused(plan)

    async def outbound(
        self, plan: RoutingPlan, request: GenerateRequest, memory: str = ""
    ) -> OutboundRequest | None:
        """Return the request as it leaves; None if it must not.

        This is the final check of the exact text: only inspected text may leave, and redacted text
        is inspected again. `memory` names that of its placeholders.
        """
        try:
            return await make_outbound_request(
                self._inspector, plan, request, self.memories, memory
            )
        except Exception as error:
            log.warning("A request could not be redacted for sending (%s)", type(error).__name__)
            return None

    def other_plans(self, plan: RoutingPlan) -> list[RoutingPlan]:
        """Return the plans by which other providers may answer the same request, in their order.

        None if the model was chosen by the client, the route or a consent.
        """
        target = plan.target
        if target.named or target.route.cloud or plan.consented:
            return []
        targets = [
            structs.replace(target, provider=provider.name, model=provider.models[0])
            for provider in self.ready()
            if provider.name != target.provider
        ]
        may = current_permission().allows_remote
        return [replace(plan, target=each) for each in targets if may(each.remote)]

    async def send(self, outbound: OutboundRequest, sink: EventSink, *, retried: bool) -> None:
        """Send it, again after a passing failure if `retried`; raises `BackendError` and
        `RequestError`.
        """
        backend = await self.egress.backend(outbound.clearance, outbound.request, retried=retried)
        await backend.run(outbound.request, sink)

    async def taint_answer(self, plan: RoutingPlan, request: GenerateRequest, text: str) -> None:
        """Taint text generated in a conversation that holds something sensitive."""
        if plan.taints is not None:
            traces = list(text_traces(text))
            await self._marks.write(traces, plan.taints, private=request.private)

    def forget(self, *, marks: bool) -> int:
        """Forget all placeholders, and with `marks` the taint of conversations; blocking.

        Returns the number of deleted marks.
        """
        self.memories = PlaceholderMemories()
        self.consents.forget()
        self._inspector.forget()
        return self._taint.forget() if marks else 0

    def close(self) -> None:
        """Close threads and files."""
        self._inspector.close()
        self._taint.close()

    def _policy(self) -> Policy:
        try:
            return self.policy.current()
        except PolicyError:
            return _SHUT

    def _own_words(self) -> OwnWords:
        policy = self._policy()
        return OwnWords(policy.words, policy.folders)

    def _plan_uninspected(
        self,
        target: RouteTarget,
        requests: Sequence[GenerateRequest],
        preference: RoutingPreference,
    ) -> RoutingPlan | None:
        """Return the plan if nothing could leave in any case; None if the request has to be
        inspected.
        """
        here = partial(local_plan, target, None)
        if preference.route == "local":
            return here(ASKED_FOR_LOCAL, "The request asks for an answer from this machine.")
        if not target.provider:
            return here("no_provider", "No provider is set up, so it is answered here.")
        if not current_permission().allows_remote(target.remote):
            return here("key", "The API key of this request does not allow it to leave.")
        provider = next((p for p in self.providers() if p.name == target.provider), None)
        trouble = "It is not set up." if provider is None else self.egress.trouble(provider)
        if trouble:
            return here("provider_not_ready", f"'{target.provider}' cannot be used: {trouble}")
        if any(request.private for request in requests):
            return here("private", "The request is marked private, so it stays here.")
        if any(request.messages is None for request in requests):
            return here(
                "raw_prompt", "Raw text completion stays here: providers support only chats."
            )
        try:
            self.policy.current()
        except PolicyError as error:
            return here("policy_is_wrong", f"{error.message} Until it is fixed nothing leaves.")
        return None

    def _consented_verdict(
        self,
        considered: InspectedDecision,
        requests: Sequence[GenerateRequest],
        preference: RoutingPreference,
    ) -> Verdict | None:
        """Return the verdict consented to, for this very text or earlier in its conversation."""
        target, decision = considered.target, considered.decision
        kinds = frozenset(c.finding.kind for c in considered.classified())
        conversation = _conversation(requests)
        if preference.consent is None:
            earlier = self.consents.recall(conversation, target.remote, kinds)
            grantable = considered.grantable_verdicts(asks=preference.route == "ask")
            return earlier if earlier in grantable and not decision.tainted else None
        for override in (False, True):
            binding = self.binding(considered, override=override)
            verdict = self.consents.check(preference.consent, binding)
            if verdict is not None:
                if conversation and not override:
                    agreement = ConsentScope(verdict, target.remote, kinds, considered.edits)
                    self.consents.remember(conversation, agreement)
                return verdict
        return None

    async def tainting(self, plan: RoutingPlan) -> RoutingPlan:
        """Add the taint for what is sensitive in the request."""
        considered = plan.considered
        assert considered is not None
        decision = considered.decision
        if plan.outbound_verdict is not None or decision.sensitivity in _FREE:
            return plan
        await self._marks.mark(considered.sensitive_findings(), decision.sensitivity)
        return replace(plan, taints=decision.sensitivity)


def _conversation(requests: Sequence[GenerateRequest]) -> str:
    return requests[0].conversation if requests else ""
