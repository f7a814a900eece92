"""Follows a turn in lines: its progress, and its end by ctrl+c."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ..text import number_format

if TYPE_CHECKING:
    from ..session.turn import Turn
    from .plain_output import PlainOutput

LONG_PROMPT = 2000
"""Tokens of prefill that are worth a line."""


async def follow_turn(turn: Turn, task: Coroutine[Any, Any, None]) -> bool:
    """Run a turn to its end; whether ctrl+c ended it."""
    try:
        await task
    except asyncio.CancelledError:  # ctrl+c: what was generated stays
        me = asyncio.current_task()
        assert me is not None
        me.uncancel()
        turn.stop()
        await turn.cancel()
        return True
    except (OSError, SystemExit):  # the reader is gone, or a signal ends the program
        turn.stop()
        if not turn.is_watched:
            await turn.cancel()
        raise
    return False


def show_progress(output: PlainOutput, turn: Turn) -> None:
    """Write why there is no text yet, every few seconds."""
    if turn.ending is not None or turn.text:
        return
    if turn.loading is not None and turn.loading < 1:
        output.news(f"Model is loading, {number_format.percent(turn.loading)}.")
    elif turn.called:
        output.news(f"Model calls {', '.join(turn.called)}.")
    elif turn.tokens:
        output.news(f"Model is thinking, {number_format.counted(turn.tokens, 'token')}.")
    elif turn.prompt_tokens - turn.cached_tokens > LONG_PROMPT:
        output.news(f"{turn.prefill.capitalize()}.")
