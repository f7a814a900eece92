"""Answers that may begin as a call, through a worker's loop."""

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


def _holding(tokenizer: Tokenizer, template: str | None, **_: bool) -> AnswerFormats:
    return AnswerFormats(tokenizer, template)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows whenever a sequence's constraint is set while it runs; True where it is dropped."""
    seen: list[bool] = []
    plain = Sequence.__setattr__

    def watched(sequence: Sequence, name: str, value: object) -> None:
        if name == "constraint" and getattr(sequence, "constraint", None) is not None:
            seen.append(value is None)
        plain(sequence, name, value)

    monkeypatch.setattr(Sequence, "__setattr__", watched)
    return seen


@pytest.mark.parametrize(
    ("reply", "text", "calls", "drops"),
    [
        ("Hello, world!", "Hello, world!", [], [True]),
        ('{"name": "Ada", "x": 1}', '{"name": "Ada", "x": 1}', [], [True]),
        (CALL, "", ["now"], []),
        (f"```json\n{CALL}\n```", "", ["now"], []),
    ],
)
async def test_only_what_begins_as_a_call_is_held_to_its_schema(
    scripted_spec: MakeSpec,
    monkeypatch: pytest.MonkeyPatch,
    dropped: list[bool],
    reply: str,
    text: str,
    calls: list[str],
    drops: list[bool],
) -> None:
    monkeypatch.setattr(model_loader, "AnswerFormats", _holding)
    backend = LocalBackend(scripted_spec(reply=reply, context=2048))
    await backend.start()
    request = GenerateRequest(id="r", messages=[ChatMessage("user", "Hi")], tools=TOOLS)
    events = [event async for event in stream_events(backend, request)]
    await backend.stop()
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == calls
    said = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert not calls or json.loads(said) == {}
    (end,) = (event for event in events if isinstance(event, Finished))
    assert end.reason == ("tool_calls" if calls else "stop")
    assert dropped == drops
