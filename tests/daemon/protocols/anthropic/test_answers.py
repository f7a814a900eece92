"""Anthropic Messages API: streamed events and whole messages, validated by its SDK's types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import TypeAdapter

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.lifecycle.lease import Lease
from ingle.daemon.protocols.anthropic.messages_api import MessageFrames, message
from ingle.daemon.protocols.job import AnswerBuilder, Job
from ingle.models.metadata.stored_model import StoredModel

if TYPE_CHECKING:
    from ingle.backends.base.backend import Backend

INFO = ModelInfo(
    engine="none",
    device="none",
    architecture="none",
    parameters=0,
    vocab_size=1,
    trained_context=100,
    context=100,
    slots=1,
    kv_capacity=1,
    has_chat_template=True,
)
MODEL = StoredModel(
    name="m",
    path=Path("model.gguf"),
    size=1,
    sha256=None,
    licence="",
    description="",
    parameters=1,
    quantization="",
    architecture="",
    context=100,
    chat=True,
    sampling={},
    source="test",
)
EVENTS: list[Event] = [
    Started("r", 12, 5),
    ReasoningDelta("r", 0, "Look ", [1]),
    ReasoningDelta("r", 0, "it up.", [2]),
    Delta("r", 0, "I ", [3]),
    Delta("r", 0, "", [4]),
    Delta("r", 0, 'will "look".\n', [5]),
    ToolCallStarted("r", 0, 0, "call_1", "weather", [6]),
    ToolCallDelta("r", 0, 0, '{"city":', [7]),
    ToolCallDelta("r", 0, 0, '"Rome"}', [8]),
    ToolCallStarted("r", 0, 1, "call_2", "now", [9]),
    Finished("r", 0, FinishReason.TOOL_CALLS, 9, reasoning_tokens=2),
]


def builder_of(max_tokens: int = 50) -> AnswerBuilder:
    backend: Backend = None  # pyright: ignore[reportAssignmentType]  # never used
    job = Job(model="m", request=GenerateRequest(id="msg_1", messages=[], max_tokens=max_tokens))
    return AnswerBuilder(job, Lease(MODEL, backend, INFO))


def streamed(events: list[Event], **options: Any) -> list[dict[str, Any]]:
    """The data of the streamed events, validated against the SDK's types and the event names."""
    from anthropic.types import RawMessageStreamEvent

    frames = MessageFrames(builder_of(), **options)
    content = frames.feed(0, events[:3]) + frames.feed(0, events[3:]) + frames.end()
    parsed: list[dict[str, Any]] = []
    checker: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for frame in content.decode().removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        checker.validate_python(event, strict=True)
        parsed.append(event)
    return parsed


def whole(events: list[Event], max_tokens: int = 50, **options: Any) -> dict[str, Any]:
    from anthropic.types import Message

    answer = builder_of(max_tokens)
    answer.take(0, events)
    body = json.loads(msgspec.json.encode(message(answer, **options)))
    Message.model_validate(body, strict=True)
    return body


def assemble(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble the message from the events of its stream."""
    first, *middle, delta, stop = events
    assert stop == {"type": "message_stop"}
    built = first["message"]
    for event in middle:
        if event["type"] == "content_block_start":
            assert event["index"] == len(built["content"])
            built["content"].append({**event["content_block"], "_json": ""})
        elif event["type"] == "content_block_delta":
            block = built["content"][event["index"]]
            match event["delta"]:
                case {"type": "text_delta", "text": text}:
                    block["text"] += text
                case {"type": "thinking_delta", "thinking": text}:
                    block["thinking"] += text
                case {"type": "signature_delta", "signature": text}:
                    block["signature"] = text
                case {"type": "input_json_delta", "partial_json": text}:
                    block["_json"] += text
                case other:
                    raise AssertionError(other)
    for block in built["content"]:
        if raw_json := block.pop("_json"):
            block["input"] = json.loads(raw_json)
    return {**built, **delta["delta"], "usage": delta["usage"]}


def test_stream_assembles_to_the_whole_message() -> None:
    answer = whole(EVENTS)
    assert assemble(streamed(EVENTS)) == answer
    thinking_block, text_block, weather, now = answer["content"]
    assert thinking_block["thinking"] == "Look it up."
    assert thinking_block["signature"]
    assert text_block["text"] == 'I will "look".\n'
    assert weather["input"] == {"city": "Rome"}
    assert (weather["id"], now["id"], now["input"]) == ("toolu_1", "toolu_2", {})
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("tool_use", None)
    assert answer["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 5,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 2},
        "service_tier": "standard",
    }


def test_stream_event_order() -> None:
    kinds = [
        (event["type"], event.get("index"), event.get("delta", {}).get("type"))
        for event in streamed(EVENTS)
    ]
    delta, start, stop = "content_block_delta", "content_block_start", "content_block_stop"
    assert kinds == [
        ("message_start", None, None),
        (start, 0, None),
        (delta, 0, "thinking_delta"),
        (delta, 0, "thinking_delta"),
        (delta, 0, "signature_delta"),
        (stop, 0, None),
        (start, 1, None),
        (delta, 1, "text_delta"),
        (delta, 1, "text_delta"),
        (stop, 1, None),
        (start, 2, None),
        (delta, 2, "input_json_delta"),
        (delta, 2, "input_json_delta"),
        (stop, 2, None),
        (start, 3, None),
        (stop, 3, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]


def test_reasoning_can_be_hidden() -> None:
    answer = whole(EVENTS, shows_reasoning=False)
    assert answer["content"][0]["thinking"] == ""
    assert answer["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert assemble(streamed(EVENTS, shows_reasoning=False)) == answer


def test_empty_answer_has_no_content_blocks() -> None:
    events: list[Event] = [Started("r", 3), Finished("r", 0, FinishReason.STOP, 1)]
    answer = whole(events)
    assert (answer["content"], answer["stop_reason"]) == ([], "end_turn")
    assert assemble(streamed(events)) == answer


def test_stop_reasons() -> None:
    def stop_of(reason: FinishReason, tokens: int, prompt: int = 3, **more: Any) -> tuple[str, Any]:
        events: list[Event] = [Started("r", prompt), Finished("r", 0, reason, tokens, **more)]
        answer = whole(events)
        return answer["stop_reason"], answer["stop_sequence"]

    assert stop_of(FinishReason.STOP, 5) == ("end_turn", None)
    assert stop_of(FinishReason.STOP, 5, stop="END") == ("stop_sequence", "END")
    assert stop_of(FinishReason.LENGTH, 50) == ("max_tokens", None)
    assert stop_of(FinishReason.LENGTH, 10, 90) == ("model_context_window_exceeded", None)
    assert stop_of(FinishReason.LENGTH, 50, 50) == ("max_tokens", None)
