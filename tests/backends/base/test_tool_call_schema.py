"""Answers that may begin as a tool call: the schema applies only if they do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.conversation import ChatMessage, Tool
from ingle.backends.base.events import Delta, Finished, ToolCallDelta, ToolCallStarted
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.engine.sequence import Sequence
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.tokenization.tokenizer import Tokenizer
from ingle.backends.worker import model_loader
from tests.harness.local_backend import LocalBackend

MakeSpec = Callable[..., LoadSpec]
TOOLS = [Tool("now", parameters='{"type":"object","properties":{},"additionalProperties":false}')]
CALL = '{"name": "now", "arguments": {}}'


def _with_call_schema(tokenizer: Tokenizer, template: str | None, **_: bool) -> AnswerFormats:
    return AnswerFormats(tokenizer, template)


@pytest.fixture
def constraint_changes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records each change of a constraint during generation; True where it is dropped."""
    seen: list[bool] = []
    plain = Sequence.__setattr__

    def watched(sequence: Sequence, name: str, value: object) -> None:
        if name == "constraint" and getattr(sequence, "constraint", None) is not None:
            seen.append(value is None)
        plain(sequence, name, value)

    monkeypatch.setattr(Sequence, "__setattr__", watched)
    return seen


@pytest.mark.parametrize(
    ("reply", "text", "calls", "expected_changes"),
    [
        ("Hello, world!", "Hello, world!", [], [True]),
        ('{"name": "Ada", "x": 1}', '{"name": "Ada", "x": 1}', [], [True]),
        (CALL, "", ["now"], []),
        (f"```json\n{CALL}\n```", "", ["now"], []),
    ],
)
async def test_schema_applies_only_to_answers_that_begin_as_a_call(
    scripted_spec: MakeSpec,
    monkeypatch: pytest.MonkeyPatch,
    constraint_changes: list[bool],
    reply: str,
    text: str,
    calls: list[str],
    expected_changes: list[bool],
) -> None:
    monkeypatch.setattr(model_loader, "AnswerFormats", _with_call_schema)
    backend = LocalBackend(scripted_spec(reply=reply, context=2048))
    await backend.start()
    request = GenerateRequest(id="r", messages=[ChatMessage("user", "Hi")], tools=TOOLS)
    events = [event async for event in stream_events(backend, request)]
    await backend.stop()
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == calls
    arguments = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert not calls or json.loads(arguments) == {}
    (end,) = (event for event in events if isinstance(event, Finished))
    assert end.reason == ("tool_calls" if calls else "stop")
    assert constraint_changes == expected_changes
