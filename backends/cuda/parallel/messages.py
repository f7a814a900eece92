"""What the first rank and the others tell each other, as frames on pipes."""

from __future__ import annotations

import msgspec

from ...base.framing import frame
from ...base.load_spec import LoadSpec


class LoadPart(msgspec.Struct, tag="load", frozen=True):
    """Meet the other ranks in the file `meeting`, and load a part of the model."""

    spec: LoadSpec
    rank: int
    count: int
    meeting: str


class FollowStep(msgspec.Struct, tag="step", frozen=True):
    """Compute a step with these inputs: see `StepCopy`.

    `chunks` are the tokens and the adapter of each chunk, `states` where its states are: see
    `StateStep`. Both are empty where nothing depends on them.
    """

    shape: tuple[int, int, int, int]
    num_rows: int
    long: bytes
    ints: bytes
    chunks: list[tuple[int, int]]
    states: list[tuple[int | None, list[tuple[int, int]]]]


class CopyPage(msgspec.Struct, tag="copy_page", frozen=True):
    """See `PagedRunner.copy_page`."""

    source: int
    target: int
    count: int


class ReadPages(msgspec.Struct, tag="read_pages", frozen=True):
    """Answer with `PagesRead`; see `PagedRunner.read_pages`."""

    pages: list[int]
    count: int


class WritePages(msgspec.Struct, tag="write_pages", frozen=True):
    """See `PagedRunner.write_pages`."""

    pages: list[int]
    count: int
    data: bytes


class CopyState(msgspec.Struct, tag="copy_state", frozen=True):
    """See `StateRunner.copy_state`."""

    source: int
    target: int


class ReadState(msgspec.Struct, tag="read_state", frozen=True):
    """Answer with `PagesRead`; see `StateRunner.read_state`."""

    row: int


class WriteState(msgspec.Struct, tag="write_state", frozen=True):
    """See `StateRunner.write_state`."""

    row: int
    data: bytes


class LoadAdapter(msgspec.Struct, tag="load_adapter", frozen=True):
    """Load the adapter in a folder unless it is loaded."""

    folder: str


class ForgetAdapter(msgspec.Struct, tag="forget_adapter", frozen=True):
    """Free the adapter in a folder."""

    folder: str


class RecordStep(msgspec.Struct, tag="record_step", frozen=True):
    """See `ModelRunner.prepare_step`."""


ToFollower = (
    LoadPart
    | FollowStep
    | CopyPage
    | ReadPages
    | WritePages
    | CopyState
    | ReadState
    | WriteState
    | LoadAdapter
    | ForgetAdapter
    | RecordStep
)


class PartLoaded(msgspec.Struct, tag="loaded", frozen=True):
    """The rank has its part."""


class PartReady(msgspec.Struct, tag="ready", frozen=True):
    """The rank follows steps now; bytes of what it holds, of a step, and of a token's pages.

    If it has layers of its own, `adapted` are outputs and inputs of those that adapters can change.
    `state_bytes` are those of a sequence's states.
    """

    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    token_bytes: int
    adapted: dict[str, tuple[int, int]] = {}
    state_bytes: int = 0


class PartFailed(msgspec.Struct, tag="failed", frozen=True):
    """The rank could not load its part, and ends."""

    code: str
    message: str
    hint: str | None


class PagesRead(msgspec.Struct, tag="pages", frozen=True):
    """The rank's share of pages, or of a state."""

    data: bytes


FromFollower = PartLoaded | PartReady | PartFailed | PagesRead

_encoder = msgspec.msgpack.Encoder()
to_follower = msgspec.msgpack.Decoder[ToFollower](ToFollower)
"""Decodes what the first rank sends."""
from_follower = msgspec.msgpack.Decoder[FromFollower](FromFollower)
"""Decodes what another rank sends."""


def rank_frame(message: ToFollower | FromFollower) -> bytes:
    """The frame of a message; raises ValueError above `MAX_FRAME`."""
    return frame(_encoder.encode(message))
