"""Conversations as Ollama's clients write them."""

from __future__ import annotations

from typing import Any

import msgspec

from ingle.daemon.protocols.ollama.messages import chat_messages
from ingle.daemon.protocols.ollama.types import OllamaMessage


def test_results_answer_the_calls_that_were_made_last() -> None:
    """A call that nobody answered for hundreds of others costs no time any more."""
    calls: list[Any] = [{"function": {"name": f"tool{number}"}} for number in range(300)]
    said: list[Any] = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "1"},
        {"role": "tool", "tool_name": "tool299", "content": "2"},
    ]
    messages = chat_messages(msgspec.convert(said, list[OllamaMessage]))
    assert [message.tool_call_id for message in messages[1:]] == ["call_44", "call_299"]
    assert len(messages[0].tool_calls) == 300
