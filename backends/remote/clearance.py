"""What a request must bring to leave this machine: the proof that it was looked at."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from ..base.requests import GenerateRequest
from .errors import CannotExpress

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Clearance(msgspec.Struct, frozen=True, kw_only=True):
    """Says that the request with this digest may go to this provider, and under which verdict.

    Made by the daemon's routing alone. `classes` are the kinds that were found in what was asked,
    `redacted` those that placeholders stand for in what goes out.
    """

    digest: str
    provider: str
    model: str
    verdict: str
    rule: str
    classes: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    conversation: str = ""


def request_digest(request: GenerateRequest) -> str:
    """The SHA-256, in hex, of everything that a request says but its id.

    Raises `CannotExpress` for text that is no Unicode, which no provider could be sent either.
    """
    # Keys that are numbers have no order in the encoder.
    biases = sorted(request.sampling.logit_bias.items())
    sampling = replace(request.sampling, logit_bias={})
    try:
        content = _ENCODER.encode((replace(request, id="", sampling=sampling), biases))
    except UnicodeEncodeError:
        raise CannotExpress("The request has text that is not valid Unicode.") from None
    return hashlib.sha256(content).hexdigest()
