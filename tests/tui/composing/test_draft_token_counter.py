from __future__ import annotations

import asyncio

from ingle.tui.composing.draft_token_counter import DraftCounter


async def test_only_the_last_draft_is_counted_and_never_two_at_once() -> None:
    asked: list[str] = []
    shown: list[tuple[str, int]] = []
    gate = asyncio.Event()
    at_once = 0

    async def count(text: str) -> int | None:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        asked.append(text)
        await gate.wait()
        at_once -= 1
        return len(text)

    counter = DraftCounter(count, lambda text, tokens: shown.append((text, tokens)), pause=0.0)
    assert counter.change("a")
    task = asyncio.ensure_future(counter.run())
    while not asked:
        await asyncio.sleep(0)
    assert not counter.change("ab")
    assert not counter.change("abc")
    gate.set()
    await task
    assert asked == ["a", "abc"]
    assert shown == [("a", 1), ("abc", 3)]
    assert counter.change("abcd")


async def test_what_nobody_can_count_is_not_shown() -> None:
    async def count(text: str) -> int | None:
        return None

    counter = DraftCounter(count, lambda text, tokens: shown.append(text), pause=0.0)
    shown: list[str] = []
    counter.change("a")
    await counter.run()
    assert shown == []
    assert not counter.change("")
