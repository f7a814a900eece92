"""Consents: tokens for one decision about one text, and their scope in a conversation."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ..detectors.finding import FindingKind
from .mask_edits import NO_EDITS, MaskEdits
from .policy import PolicyDecision, Verdict

VALID_SECONDS = 3600.0
KEPT_TOKENS = 10_000
KEPT_CHARACTERS = 10_000_000
"""Limit of the masked values of all tokens."""
KEPT_CONVERSATIONS = 1_000


class ConsentScope(msgspec.Struct, frozen=True):
    """What was consented to: the verdict, for these kinds, to this provider's model, with these
    masks.
    """

    verdict: Verdict
    target: str
    kinds: frozenset[FindingKind]
    edits: MaskEdits = NO_EDITS


class _Issued(msgspec.Struct, frozen=True):
    verdict: Verdict
    binding: bytes
    edits: MaskEdits
    until: float


class ConsentStore:
    """Issues and checks consent tokens; both tokens and scopes end with the daemon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._issued: OrderedDict[str, _Issued] = OrderedDict()
        self._characters = 0
        self._conversations: OrderedDict[str, ConsentScope] = OrderedDict()

    def issue(self, verdict: Verdict, binding: bytes, edits: MaskEdits = NO_EDITS) -> str:
        """Return a token for a `binding`, valid for an hour."""
        token = secrets.token_urlsafe(24)
        self._issued[token] = _Issued(verdict, binding, edits, self._clock() + VALID_SECONDS)
        self._characters += edits.length
        while len(self._issued) > KEPT_TOKENS or self._characters > KEPT_CHARACTERS:
            _, oldest = self._issued.popitem(last=False)
            self._characters -= oldest.edits.length
        return token

    def check(self, token: str, binding: bytes) -> Verdict | None:
        """Return the verdict that a token grants; None for an invalid token, or another text."""
        issued = self._valid(token)
        if issued is None or not hmac.compare_digest(issued.binding, binding):
            return None
        return issued.verdict

    def edits(self, token: str | None, conversation: str, target: str) -> MaskEdits:
        """Return the masks of a token, without one those of its conversation.

        What was shown to one model is masked again for another.
        """
        if token is not None:
            issued = self._valid(token)
            return issued.edits if issued is not None else NO_EDITS
        agreement = self._conversations.get(conversation)
        if agreement is None:
            return NO_EDITS
        return agreement.edits if agreement.target == target else MaskEdits(agreement.edits.hide)

    def remember(self, conversation: str, agreement: ConsentScope) -> None:
        """Remember a consent for the rest of its conversation."""
        before = self._conversations.pop(conversation, None)
        same = (agreement.target, agreement.verdict)
        if before is not None and (before.target, before.verdict) == same:
            kinds = before.kinds | agreement.kinds
            agreement = msgspec.structs.replace(agreement, kinds=kinds)
        self._conversations[conversation] = agreement
        while len(self._conversations) > KEPT_CONVERSATIONS:
            self._conversations.popitem(last=False)

    def recall(
        self, conversation: str, target: str, kinds: Iterable[FindingKind]
    ) -> Verdict | None:
        """Return the verdict granted earlier for all these kinds; None if consent is still
        needed.
        """
        agreement = self._conversations.get(conversation)
        if not conversation or agreement is None or agreement.target != target:
            return None
        return agreement.verdict if agreement.kinds.issuperset(kinds) else None

    def forget(self) -> None:
        """Forget all tokens, and the consents of all conversations."""
        self._issued.clear()
        self._characters = 0
        self._conversations.clear()

    def _valid(self, token: str) -> _Issued | None:
        issued = self._issued.get(token)
        return issued if issued is not None and self._clock() <= issued.until else None


def consent_binding(digest: bytes, decision: PolicyDecision, target: str, override: bool) -> bytes:
    """Return what a consent is bound to: the text, the decision, and the target."""
    kinds = sorted({finding.kind for finding in decision.findings})
    facts = "\0".join(
        [decision.verdict, decision.rule, decision.sensitivity, target, str(override), *kinds]
    )
    return hashlib.sha256(digest + facts.encode()).digest()
