"""The cache of token counts: exact counts by model, and estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.generation_types import PromptTokenCounts
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.gauges.context_counter import ContextCounter, TokenCountCache
from ingle.tui.gauges.context_usage import Role

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

HELLO = {"role": "user", "content": "Hello there"}
LONG = {"role": "assistant", "content": "abcdefgh" * 100}


def test_counts_are_exact_once_noted_for_a_model() -> None:
    cache = TokenCountCache()
    assert not cache.count("m", HELLO)[1]
    cache.note("m", [HELLO], PromptTokenCounts(total=12, messages=[9], rest=3))
    assert cache.count("m", HELLO) == (9, True)
    assert not cache.count("other", HELLO)[1]
    assert not cache.count("m", HELLO | {"role": "assistant"})[1]
    assert cache.is_complete("m", [HELLO])
    assert not cache.is_complete("m", [HELLO, LONG])


async def test_text_of_the_template_counts_as_system_prompt(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    chat = Chat()
    chat.add(Message(role="user", content="Hello there"))
    counter = ContextCounter()
    counter.look(chat, "smollm2:135m")
    assert await counter.ask(client)
    counter.look(chat, "smollm2:135m")
    counted = await client.count_tokens({"model": "smollm2:135m", "messages": counter.request})
    use = counter.use(8192, {})
    assert (use.used, use.roles[Role.SYSTEM]) == (counted.total, counted.rest) != (0, 0)
    assert [part.is_message for part in counter.parts] == [True, False]


def test_count_of_an_answer_is_not_that_of_another_system_prompt() -> None:
    chat = Chat()
    chat.add(Message(role="user", content="Hello there"))
    counter = ContextCounter()
    counter.look(chat, "m")
    counter.set_total("answer", 48)
    assert counter.use(8192, {}).used == 48
    chat.settings.system = "Be brief."
    counter.look(chat, "m")
    counter.set_total("answer", 48)
    assert counter.use(8192, {}).exact is False


def test_estimates_are_calibrated_by_counts() -> None:
    cache = TokenCountCache()
    before = cache.estimate("m", "x" * 800)
    cache.note("m", [LONG], PromptTokenCounts(total=108, messages=[105]))
    assert before == 200
    assert cache.estimate("m", "x" * 800) == 100
    assert cache.estimate("other", "x" * 800) == 200


def test_counts_of_other_messages_are_rejected() -> None:
    with pytest.raises(ValueError, match="shorter"):
        TokenCountCache().note("m", [HELLO, LONG], PromptTokenCounts(total=9, messages=[9]))
