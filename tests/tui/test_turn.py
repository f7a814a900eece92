"""One prompt and its answer, followed from the fake daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.tui.client import DaemonClient
from ingle.tui.transcript.entries import AnswerEntry
from ingle.tui.turn import Turn

if TYPE_CHECKING:
    from .conftest import FakeDaemon


async def test_thoughts_are_counted_and_not_part_of_the_text(
    client: DaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Yes.", thoughts=["Hm, ", "so "], gate_before=0)
    seen: list[str] = []

    def changed() -> None:
        seen.append(turn.summary())
        if len(seen) == 3:
            fake_daemon.gate.set()

    turn = Turn(client, [{"role": "user", "content": "Hi"}], None, AnswerEntry("m"), changed)
    await turn.run()
    assert any("thinking, 2 tokens" in summary for summary in seen)
    assert any("thinking, 4 tokens" in summary for summary in seen)
    assert turn.text == "Yes."
