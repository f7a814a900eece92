"""`FrameBuffer`: splitting a worker's output into messages."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.events import Delta
from ingle.backends.base.framing import MAX_FRAME
from ingle.backends.worker.supervisor.worker_pipes import FrameBuffer
from ingle.backends.worker.worker_protocol import FromWorker, Outputs, Pong, encode_frame


def outputs(texts: list[str]) -> Outputs:
    return Outputs([Delta("r", 0, text, [1]) for text in texts])


MESSAGES = st.lists(
    st.one_of(
        st.builds(Pong),
        st.builds(outputs, st.lists(st.text(max_size=20))),
    )
)


@given(MESSAGES, st.data())
def test_messages_are_decoded_from_any_chunks(
    messages: list[FromWorker], data: st.DataObject
) -> None:
    stream = b"".join(encode_frame(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    received: list[FromWorker] = []
    buffer = FrameBuffer(received.append)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer.feed(stream[start:end])
    assert received == messages


@pytest.mark.parametrize("before", [b"", encode_frame(Pong())], ids=["alone", "behind another"])
@pytest.mark.parametrize(
    "broken",
    [(MAX_FRAME + 1).to_bytes(4, "little"), b"\x01\x00\x00\x00\xc1"],
    ids=["too long", "no message"],
)
def test_invalid_frame_is_an_error_after_the_messages_before_it(
    before: bytes, broken: bytes
) -> None:
    received: list[FromWorker] = []
    with pytest.raises(msgspec.MsgspecError):
        FrameBuffer(received.append).feed(before + broken)
    assert received == ([Pong()] if before else [])
