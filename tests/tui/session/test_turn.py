"""A turn: one prompt and its streamed answer, against the scripted daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.tui.chats.history_protocol import NullRecorder
from ingle.tui.chats.message import Message
from ingle.tui.chats.turn_request import TurnRequest
from ingle.tui.session.turn import Turn
from ingle.tui.transcript.entries.answer_entry import AnswerEntry

if TYPE_CHECKING:
    from ..conftest import FakeDaemon


async def test_prefill_shows_how_much_of_it_is_done(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.prompt_tokens = 2008
    fake_daemon.script("Yes.", prefilled=508)
    seen: list[str] = []
    message = Message(role="assistant")
    turn = Turn(client, NullRecorder(), message, AnswerEntry("m"), lambda: seen.append(turn.note()))
    await turn.run(TurnRequest([{"role": "user", "content": "Hi"}]))
    assert seen[0] == "prefill of 2 000 tokens"
    assert seen[1] == "prefill of 2 000 tokens, 25 %"


async def test_reasoning_is_counted_and_separate_from_the_text(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Yes.", thoughts=["Hm, ", "so "], gate_before=0)
    seen: list[str] = []

    def changed() -> None:
        seen.append(turn.note())
        if len(seen) == 3:
            fake_daemon.gate.set()

    message = Message(role="assistant")
    turn = Turn(client, NullRecorder(), message, AnswerEntry("m"), changed)
    await turn.run(TurnRequest([{"role": "user", "content": "Hi"}]))
    assert any("thinking, 2 tokens" in summary for summary in seen)
    assert any("thinking, 4 tokens" in summary for summary in seen)
    assert (message.content, message.reasoning) == ("Yes.", "Hm, so ")
    assert message.ending == "answered"
