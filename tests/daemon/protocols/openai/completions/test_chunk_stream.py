"""Stream chunks that are joined from encoded pieces equal chunks encoded from structs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    TokenLogprobs,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.lifecycle.lease import Lease
from ingle.daemon.protocols.job import AnswerBuilder, Job
from ingle.daemon.protocols.openai.completions.answers import ChatStream, CompletionStream
from ingle.daemon.protocols.openai.completions.chunk_stream import ChunkStream
from ingle.daemon.protocols.openai.completions.request_types import (
    ChatCompletionRequest,
    FunctionSpec,
    PlainCompletionRequest,
    StreamOptions,
)
from ingle.models.metadata.stored_model import StoredModel

if TYPE_CHECKING:
    from ingle.backends.base.backend import Backend

NAME = 'a "name" with {"content":""} in it'
INFO = ModelInfo(
    engine="none",
    device="none",
    architecture="none",
    parameters=0,
    vocab_size=1,
    trained_context=1,
    context=1,
    slots=1,
    kv_capacity=1,
    has_chat_template=True,
)


def lease() -> Lease:
    model = StoredModel(
        name=NAME,
        path=Path("model.gguf"),
        size=1,
        sha256=None,
        licence="",
        description="",
        parameters=1,
        quantization="",
        architecture="",
        context=1,
        chat=True,
        sampling={},
        source="test",
    )
    backend: Backend = None  # pyright: ignore[reportAssignmentType]  # never used
    return Lease(model, backend, INFO)


def builder() -> AnswerBuilder:
    request = GenerateRequest(id="chatcmpl-1", n=2)
    empty = AnswerBuilder(Job(model=NAME, request=request, prompts=("Hi", "Ho")), lease())
    empty.created = 1
    return empty


INDEX, CALL, ONE = st.integers(0, 1), st.integers(0, 1), st.just([1])
LOGPROBS = st.sampled_from([None, [TokenLogprobs(1, -0.5)], []])
NAMES = st.just({1: b"one"})
PIECES = st.one_of(
    st.builds(Delta, st.just("r"), INDEX, st.text(), ONE, LOGPROBS, NAMES),
    st.builds(Delta, st.just("r"), INDEX, st.text(), ONE),
    st.builds(ReasoningDelta, st.just("r"), INDEX, st.text(), ONE),
    st.builds(ToolCallStarted, st.just("r"), INDEX, CALL, st.just("c1"), st.text(), ONE),
    st.builds(ToolCallDelta, st.just("r"), INDEX, CALL, st.text(), ONE),
)
USAGE = StreamOptions(include_usage=True)
CHATS = (
    ChatCompletionRequest(model="m", messages=[]),
    ChatCompletionRequest(model="m", messages=[], stream_options=USAGE),
    ChatCompletionRequest(
        model="m",
        messages=[],
        stream_options=StreamOptions(include_usage=True, continuous_usage_stats=True),
        service_tier="flex",
    ),
    ChatCompletionRequest(
        model="m", messages=[], functions=[FunctionSpec("f")], include_reasoning=False
    ),
)
PLAIN = (
    PlainCompletionRequest(model="m", prompt="Hi"),
    PlainCompletionRequest(model="m", prompt="Hi", stream_options=USAGE, echo=True),
)


@pytest.mark.parametrize("body", CHATS)
@given(pieces=st.lists(PIECES))
def test_joined_chat_chunks_equal_encoded_structs(
    body: ChatCompletionRequest, pieces: list[Event]
) -> None:
    check_frames(ChatStream(builder(), body), ChatStream(builder(), body), 0, pieces)


@pytest.mark.parametrize("body", PLAIN)
@given(prompt=st.integers(0, 1), pieces=st.lists(PIECES))
def test_joined_completion_chunks_equal_encoded_structs(
    body: PlainCompletionRequest, prompt: int, pieces: list[Event]
) -> None:
    stream, reference = (CompletionStream(builder(), body) for _ in range(2))
    check_frames(stream, reference, prompt, pieces)


def check_frames(
    stream: ChunkStream, reference: ChunkStream, prompt: int, pieces: list[Event]
) -> None:
    """Both streams produce the same bytes; the second encodes every chunk from its struct."""
    reference.joins = False
    ends: list[Event] = [Finished("r", index, FinishReason.STOP, 2) for index in (0, 1)]
    events: list[Event] = [Started("r", 3), *pieces, *ends]
    for _ in range(2):
        assert stream.feed(prompt, events) == reference.feed(prompt, events)
    assert stream.end() == reference.end()
    assert stream.end().endswith(b"data: [DONE]\n\n")
