"""Worker protocol: encoding and decoding of frames."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base import framing
from ingle.backends.base.events import Delta, Finished, FinishReason, Started
from ingle.backends.base.framing import HEADER
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.worker_protocol import (
    Outputs,
    Rejected,
    decode_from_worker,
    decode_to_worker,
    encode_frame,
)

EVENTS = st.lists(
    st.one_of(
        st.builds(Started, st.text(), st.integers(0, 10**6), st.integers(0, 10**6)),
        st.builds(Delta, st.text(), st.integers(0, 15), st.text(), st.lists(st.integers(0, 10**6))),
        st.builds(Finished, st.text(), st.just(0), st.sampled_from(FinishReason), st.just(3)),
    )
)


def body_of(frame: bytes) -> bytes:
    (size,) = HEADER.unpack(frame[: HEADER.size])
    assert size == len(frame) - HEADER.size
    return frame[HEADER.size :]


@given(EVENTS)
def test_events_round_trip(events: list[Started | Delta | Finished]) -> None:
    message = Outputs(list(events))
    assert decode_from_worker(body_of(encode_frame(message))) == message


def test_request_round_trip() -> None:
    message = GenerateRequest(id="a", prompt=[1, 2, 3], stop=["\n"], n=2)
    assert decode_to_worker(body_of(encode_frame(message))) == message


def test_message_of_the_other_direction_is_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_to_worker(body_of(encode_frame(Rejected("a", "code", "message"))))


@given(st.binary(max_size=200))
def test_garbage_is_a_decode_error(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_from_worker(b"\xc1" + body)


def test_oversized_message_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_FRAME", 1000)
    encode_frame(GenerateRequest(id="a", prompt="x" * 900))
    with pytest.raises(ValueError, match="longer than 1000"):
        encode_frame(GenerateRequest(id="a", prompt="x" * 1000))
