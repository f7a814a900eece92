"""Consents: tokens for one decision about one text, and their scope in a conversation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ..detectors.finding import FindingKind
from .policy import PolicyDecision, Verdict

VALID_SECONDS = 3600.0
KEPT_CONVERSATIONS = 1_000
_VERDICTS = {Verdict.REDACT: 1, Verdict.CLOUD: 2}


class ConsentScope(msgspec.Struct, frozen=True):
    """What was consented to: the verdict, for these kinds, to this provider's model."""

    verdict: Verdict
    target: str
    kinds: frozenset[FindingKind]


class ConsentStore:
    """Issues and checks consent tokens; both tokens and scopes end with the daemon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._conversations: OrderedDict[str, ConsentScope] = OrderedDict()

    def issue(self, verdict: Verdict, binding: bytes) -> str:
        """Return a token for a `binding`, valid for an hour."""
        until = int(self._clock() + VALID_SECONDS)
        head = bytes([_VERDICTS[verdict]]) + until.to_bytes(8)
        return base64.urlsafe_b64encode(head + self._sign(head, binding)).decode().rstrip("=")

    def check(self, token: str, binding: bytes) -> Verdict | None:
        """Return the verdict that a token grants; None for an invalid token, or another text."""
        try:
            content = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
        except ValueError:
            return None
        head, signature = content[:9], content[9:]
        if len(head) != 9 or not hmac.compare_digest(signature, self._sign(head, binding)):
            return None
        if self._clock() > int.from_bytes(head[1:]):
            return None
        return next(verdict for verdict, code in _VERDICTS.items() if code == head[0])

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
        """Forget the consents of all conversations."""
        self._conversations.clear()

    def _sign(self, head: bytes, binding: bytes) -> bytes:
        return hmac.digest(self._key, head + binding, "sha256")


def consent_binding(digest: bytes, decision: PolicyDecision, target: str, override: bool) -> bytes:
    """Return what a consent is bound to: the text, the decision, and the target."""
    kinds = sorted({finding.kind for finding in decision.findings})
    facts = "\0".join(
        [decision.verdict, decision.rule, decision.sensitivity, target, str(override), *kinds]
    )
    return hashlib.sha256(digest + facts.encode()).digest()
