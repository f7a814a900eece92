"""Conversion of Ollama messages to chat messages."""

from __future__ import annotations

from typing import Any

import msgspec

from ingle.daemon.protocols.ollama.messages import chat_messages
from ingle.daemon.protocols.ollama.types import OllamaMessage


def test_tool_results_match_the_most_recent_calls() -> None:
    """Only the most recent calls are searched, so that unanswered calls cost no time."""
    calls: list[Any] = [{"function": {"name": f"tool{number}"}} for number in range(300)]
    converted: list[Any] = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "1"},
        {"role": "tool", "tool_name": "tool299", "content": "2"},
    ]
    messages = chat_messages(msgspec.convert(converted, list[OllamaMessage]))
    assert [message.tool_call_id for message in messages[1:]] == ["call_44", "call_299"]
    assert len(messages[0].tool_calls) == 300
