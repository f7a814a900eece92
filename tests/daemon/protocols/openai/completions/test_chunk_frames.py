"""Chunks that are put together from pieces are those that would have been encoded whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
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
from ingle.daemon.protocols.answer_builder import AnswerBuilder
from ingle.daemon.protocols.job import Job
from ingle.daemon.protocols.openai.completions.answer_style import AnswerStyle
from ingle.daemon.protocols.openai.completions.chat_answer import ChatAnswer
from ingle.daemon.protocols.openai.completions.chunk_frames import Answer, ChunkFrames
from ingle.daemon.protocols.openai.completions.completion_answer import CompletionAnswer
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
    backend: Backend = None  # pyright: ignore[reportAssignmentType]  # nobody asks it
    return Lease(model, backend, INFO)


def collected() -> AnswerBuilder:
    request = GenerateRequest(id="chatcmpl-1", n=2)
    empty = AnswerBuilder(Job(model=NAME, request=request, prompts=("Hi", "Ho")), lease())
    empty.created = 1
    return empty


def whole(answer: Answer, prompt: int, events: list[Event]) -> bytes:
    """Every chunk encoded from its struct."""
    chunks = [chunk for event in events for chunk in answer.chunks(prompt, event)]
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks)


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
STYLES = (
    AnswerStyle(),
    AnswerStyle(include_usage=True),
    AnswerStyle(include_usage=True, counts_on=True, service_tier="flex"),
    AnswerStyle(legacy=True, tells_reasoning=False),
)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [ChatAnswer, CompletionAnswer])
@given(prompt=st.integers(0, 1), pieces=st.lists(PIECES))
def test_frames_are_those_of_the_structs(
    kind: type[ChatAnswer | CompletionAnswer],
    style: AnswerStyle,
    prompt: int,
    pieces: list[Event],
) -> None:
    prompt = 0 if kind is ChatAnswer else prompt
    answer, reference = (kind(collected(), style) for _ in range(2))
    ends: list[Event] = [Finished("r", index, FinishReason.STOP, 2) for index in (0, 1)]
    events: list[Event] = [Started("r", 3), *pieces, *ends]
    frames = ChunkFrames(answer)
    assert frames.feed(prompt, events) == whole(reference, prompt, events)
    assert frames.feed(prompt, events) == whole(reference, prompt, events)
    usage = msgspec.json.encode(reference.usage_chunk())
    counted = b"data: " + usage + b"\n\n" if style.include_usage else b""
    assert frames.end() == counted + b"data: [DONE]\n\n"
