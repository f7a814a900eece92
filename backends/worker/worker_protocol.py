"""The worker protocol: msgpack frames on the child's stdin and stdout.

A frame is a little-endian u32 length followed by that many bytes of msgpack, one message each. The
daemon sends `ToWorker`, the worker sends `FromWorker`; the pair of unions is the protocol.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..base.events import Embedded, Event, Reranked, Tokenized
from ..base.framing import frame
from ..base.kv_page_map import KVPageMap
from ..base.load_spec import LoadSpec
from ..base.model_info import Gauges, ModelInfo
from ..base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest


class Load(msgspec.Struct, frozen=True, tag="load"):
    """The first message to a worker, sent once."""

    spec: LoadSpec


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop a request between two steps; unknown ids are ignored."""

    id: str


class LivenessPing(msgspec.Struct, frozen=True, tag="ping"):
    """Ask for a `Pong` between two steps."""


class Trim(msgspec.Struct, frozen=True, tag="trim"):
    """Free the cached tokens that are not in use."""


class DropAdapter(msgspec.Struct, frozen=True, tag="drop_adapter"):
    """Free the adapter of a folder once nothing is computed; one that is not loaded is ignored."""

    folder: str


class WatchPages(msgspec.Struct, frozen=True, tag="watch_pages"):
    """Begin or end reports of the pages of the KV cache; the first is sent at once."""

    on: bool


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Finish running requests, save their KV, and exit; new requests are rejected.

    After `grace` seconds the daemon ends the worker.
    """

    grace: float = 5.0


WorkerRequest = GenerateRequest | EmbedRequest | RerankRequest | TokenizeRequest
"""Answered by events, or by one `Embedded`, `Reranked` or `Tokenized`; or else by `Rejected`."""

ToWorker = Load | WorkerRequest | Cancel | LivenessPing | Trim | DropAdapter | WatchPages | Drain


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """The fraction of the weights that is loaded, 0 to 1."""

    fraction: float


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded."""

    info: ModelInfo


class LoadFailure(msgspec.Struct, frozen=True, tag="failed"):
    """The model could not be loaded; the worker exits."""

    code: str
    message: str
    hint: str | None = None


class Rejected(msgspec.Struct, frozen=True, tag="rejected"):
    """A request was refused before its first event, or failed alone later."""

    id: str
    code: str
    message: str
    hint: str | None = None
    param: str | None = None
    prompt_tokens: int | None = None
    context: int | None = None
    exact: bool = True


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """All events of one step, in order."""

    events: list[Event]


class GaugesReport(msgspec.Struct, frozen=True, tag="gauges"):
    """Sent a few times a second while the worker is busy, and once when it falls idle."""

    gauges: Gauges


class PagesReport(msgspec.Struct, frozen=True, tag="pages"):
    """Sent only while pages are watched: at most four times a second, and once when idle."""

    pages: KVPageMap


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """The answer to `LivenessPing`, sent between two steps."""


FromWorker = (
    Loading
    | Ready
    | LoadFailure
    | Rejected
    | Outputs
    | Embedded
    | Reranked
    | Tokenized
    | GaugesReport
    | PagesReport
    | Pong
)

_encoder = msgspec.msgpack.Encoder()
decode_to_worker: Callable[[bytes], ToWorker] = msgspec.msgpack.Decoder(ToWorker).decode
"""Returns the message in a frame to the worker; raises `msgspec.MsgspecError`."""
decode_from_worker: Callable[[bytes | bytearray], FromWorker]
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
"""Returns the message in a frame from the worker; raises `msgspec.MsgspecError`."""


def encode_frame(message: ToWorker | FromWorker) -> bytes:
    """Return the frame of one message.

    Raises ValueError above `MAX_FRAME` and for text with lone surrogates, OverflowError for an
    integer beyond 64 bits.
    """
    return frame(_encoder.encode(message))
