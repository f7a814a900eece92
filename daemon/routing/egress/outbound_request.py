"""Outbound requests: exactly what leaves, with its clearance."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ingle.backends.base.events import Event
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance, request_digest

from ..detectors.finding import FindingKind, SensitiveFinding, Sensitivity, TextPart
from ..inspection.request_inspector import InspectedRequest, RequestInspector
from ..inspection.request_parts import parts_digest, parts_of
from ..policy.mask_edits import without_public
from ..policy.policy import REPLACED, Verdict
from ..policy.routing_plan import InspectedDecision, RoutingPlan
from ..policy.sensitivity_classes import TOPICS
from .placeholders import LOOKALIKE, PlaceholderMemories
from .redaction import Redaction

_HOME = re.compile(
    r"[^\n]{0,40}?[/\\](?:home\d?|users|benutzer)[/\\]{1,2}[\w. -]+?(?=[/\\])", re.IGNORECASE
)
_SEPARATOR = re.compile(r"[/\\]")
_MESSAGE = re.compile(r"messages\[(\d+)\]")
_SHOWABLE = REPLACED | {Sensitivity.ASK}
"""Classes of findings whose masks the user may lift."""


@dataclass(frozen=True, kw_only=True)
class OutboundRequest:
    """A cleared request as it leaves; `restored` puts the original values back into the answer.

    `redaction` has its placeholders, None if nothing was replaced.
    """

    request: GenerateRequest
    clearance: Clearance
    restored: Callable[[list[Event]], list[Event]]
    redaction: Redaction | None = None


async def make_outbound_request(
    inspector: RequestInspector,
    plan: RoutingPlan,
    request: GenerateRequest,
    memories: PlaceholderMemories,
    memory: str = "",
) -> OutboundRequest | None:
    """Return a request as it leaves; None if it must not. Raises `CannotExpress`.

    `memory` names that of its placeholders, which is by default its conversation's.
    """
    inspected = inspection_of(plan, request)
    if inspected is None or plan.considered is None:
        return None
    if plan.outbound_verdict is Verdict.CLOUD:
        clearance = _clearance(plan, request, redacted=())
        return OutboundRequest(request=request, clearance=clearance, restored=_as_they_are)
    if plan.outbound_verdict is not Verdict.REDACT:
        return None
    changed, redaction = await redact(plan.considered, inspected, memories, memory)
    if not await is_clean(inspector, plan, changed):
        return None
    clearance = _clearance(plan, changed, redacted=redaction.kinds)
    restorer = redaction.restorer()
    return OutboundRequest(
        request=changed, clearance=clearance, restored=restorer.feed, redaction=redaction
    )


async def redact(
    considered: InspectedDecision,
    inspected: InspectedRequest,
    memories: PlaceholderMemories,
    memory: str = "",
) -> tuple[GenerateRequest, Redaction]:
    """Return a request with placeholders for everything replaceable; raises `CannotExpress`."""
    kinds = {finding.kind for finding in considered.replaceable()}
    findings = [one for one in inspected.findings if one.kind in kinds]
    known = memories.of(memory or inspected.request.conversation)
    return await asyncio.to_thread(
        Redaction.of,
        inspected.request,
        list(_without_files(findings, inspected)),
        known,
        considered.edits.show,
    )


def _without_files(
    findings: Sequence[SensitiveFinding], inspected: InspectedRequest
) -> Iterator[SensitiveFinding]:
    """Yield the findings; of paths only the folder that is replaced.

    That is the home folder if a program wrote the path, else one that is named, too: a model could
    not work with files of which it knows neither folders nor names.
    """
    messages, parts = inspected.request.messages or (), inspected.parts
    paths = {_text(parts, one) for one in findings if one.kind is FindingKind.FILE_PATH}
    folders = sorted(
        (path for path in paths if len(_SEPARATOR.findall(path)) > 2), key=len, reverse=True
    )
    for finding in findings:
        path, folder = _text(parts, finding), ""
        number = _MESSAGE.match(parts[finding.part].where)
        if finding.kind is not FindingKind.FILE_PATH:
            pass
        elif number is not None and messages[int(number[1])].role != "user":
            home = _HOME.match(path)
            folder = home[0] if home else ""
        else:
            below = (f for f in folders if path.startswith(f) and _SEPARATOR.match(path, len(f)))
            folder = next(below, "")
        end = finding.start + len(folder)
        yield replace(finding, end=end, value=folder) if folder else finding


def inspection_of(plan: RoutingPlan, request: GenerateRequest) -> InspectedRequest | None:
    """Return the inspection of exactly this request; None if it was not inspected in this form."""
    if plan.considered is None:
        return None
    digest = parts_digest(parts_of(request))
    return next((one for one in plan.considered.inspected if one.digest == digest), None)


async def is_clean(
    inspector: RequestInspector, plan: RoutingPlan, request: GenerateRequest
) -> bool:
    """Whether a redacted request contains nothing that may not leave."""
    considered = plan.considered
    if considered is None:
        return False
    parts, edits = parts_of(request), considered.edits
    if edits.findings(parts):
        return False
    found = without_public(considered.policy.public_words, parts, await inspector.scan(parts))
    found = [finding for finding in found if not _is_placeholder(finding, parts)]
    # Without its values the same text may read as about another topic.
    agreed = {c.sensitivity for c in considered.classified() if c.finding.kind in TOPICS}
    for c in considered.policy.classify(found, plan.target.route):
        if c.sensitivity is Sensitivity.ALLOW:
            continue
        if c.sensitivity in _SHOWABLE and edits.shows(_text(parts, c.finding)):
            continue
        may = (plan.consented and c.sensitivity is Sensitivity.ASK) or (
            plan.override and c.sensitivity is Sensitivity.NEVER
        )
        # What a placeholder replaces must be gone, whatever was consented to.
        if not (may and c.finding.kind in TOPICS and c.sensitivity in agreed):
            return False
    return True


def _is_placeholder(finding: SensitiveFinding, parts: Sequence[TextPart]) -> bool:
    """Whether a finding is nothing but placeholders, such as a word after "password:"."""
    text = _text(parts, finding)
    rest, count = LOOKALIKE.subn("", text)
    return bool(count) and finding.kind not in TOPICS and not any(map(str.isalnum, rest))


def _text(parts: Sequence[TextPart], finding: SensitiveFinding) -> str:
    return (
        parts[finding.part].text[finding.start : finding.end] if finding.part < len(parts) else ""
    )


def _clearance(
    plan: RoutingPlan, request: GenerateRequest, *, redacted: tuple[str, ...]
) -> Clearance:
    assert plan.outbound_verdict is not None
    assert plan.considered is not None
    kinds = {c.finding.kind.value for c in plan.considered.classified()}
    return Clearance(
        digest=request_digest(request),
        provider=plan.target.provider,
        model=plan.target.model,
        verdict=plan.outbound_verdict,
        rule=plan.rule,
        classes=tuple(sorted(kinds)),
        redacted=redacted,
        conversation=request.conversation,
        choice=plan.choice,
    )


def _as_they_are(events: list[Event]) -> list[Event]:
    return events
