"""The clearance that the router issues for a request before it may leave this machine."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from ..base.requests import GenerateRequest
from .errors import CannotExpress

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Clearance(msgspec.Struct, frozen=True, kw_only=True):
    """Permission for the request with this digest to go to one provider, and the verdict behind it.

    Created only by the daemon's router. `classes` are the kinds of private data found in the
    request, `redacted` those replaced by placeholders in what is sent. `choice` compares both
    sides, if the owner's preference decided.
    """

    digest: str
    provider: str
    model: str
    verdict: str
    rule: str
    classes: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    conversation: str = ""
    choice: str = ""


def request_digest(request: GenerateRequest) -> str:
    """Return the SHA-256, in hex, of everything in a request but its id.

    Raises `CannotExpress` for text that is not valid Unicode, which no provider would accept
    either.
    """
    # The encoder does not order integer keys.
    biases = sorted(request.sampling.logit_bias.items())
    sampling = replace(request.sampling, logit_bias={})
    try:
        content = _ENCODER.encode((replace(request, id="", sampling=sampling), biases))
    except UnicodeEncodeError:
        raise CannotExpress("The request has text that is not valid Unicode.") from None
    return hashlib.sha256(content).hexdigest()
