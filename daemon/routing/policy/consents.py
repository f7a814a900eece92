"""Yeses: tokens that are good for one decision about one text, and what they cover afterwards."""

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
from .policy_decision import PolicyDecision, Verdict

VALID_SECONDS = 3600.0
KEPT_CONVERSATIONS = 1_000
_VERDICTS = {Verdict.REDACT: 1, Verdict.CLOUD: 2}


class ConsentScope(msgspec.Struct, frozen=True):
    """What somebody said yes to: that this much may leave, to this provider's model."""

    verdict: Verdict
    target: str
    kinds: frozenset[FindingKind]


class ConsentBook:
    """Issues and checks tokens; they end with the daemon, and so does what it remembers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._conversations: OrderedDict[str, ConsentScope] = OrderedDict()

    def issue(self, verdict: Verdict, binding: bytes) -> str:
        """A token for a `binding`, valid for an hour."""
        until = int(self._clock() + VALID_SECONDS)
        head = bytes([_VERDICTS[verdict]]) + until.to_bytes(8)
        return base64.urlsafe_b64encode(head + self._sign(head, binding)).decode().rstrip("=")

    def check(self, token: str, binding: bytes) -> Verdict | None:
        """The verdict that a token is good for; None for one that is none, or for another text."""
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
        """One yes is enough for a conversation, for what it was said to."""
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
        """The yes that covers all these kinds; None where somebody has to be asked."""
        agreement = self._conversations.get(conversation)
        if not conversation or agreement is None or agreement.target != target:
            return None
        return agreement.verdict if agreement.kinds.issuperset(kinds) else None

    def forget(self, conversation: str | None = None) -> None:
        """Drop what one conversation, or all, were allowed."""
        if conversation is None:
            self._conversations.clear()
        else:
            self._conversations.pop(conversation, None)

    def _sign(self, head: bytes, binding: bytes) -> bytes:
        return hmac.digest(self._key, head + binding, "sha256")


def consent_binding(digest: bytes, decision: PolicyDecision, target: str, override: bool) -> bytes:
    """What a yes is bound to: the text, the decision about it, and where it would go."""
    kinds = sorted({finding.kind for finding in decision.findings})
    told = "\0".join(
        [decision.verdict, decision.rule, decision.sensitivity, target, str(override), *kinds]
    )
    return hashlib.sha256(digest + told.encode()).digest()
