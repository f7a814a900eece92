"""Retention of facts over several compactions, independent of the model's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compaction_cases.chat_maker import Fact, make_chat
from compaction_cases.grading import says
from compaction_cases.slots import load_slots
from compaction_cases.views import add_turns

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages
from ingle.tui.compaction.compactor import Compactor
from ingle.tui.compaction.summary_notes import HEADINGS

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

GIST = "The user chats about house, food and journeys and wants help with all of it."
NOTES = "\n".join(
    f"{heading}:\n- {GIST if heading == 'User and goal' else 'none'}" for heading in HEADINGS
)


def current(fact: Fact, after: int) -> str:
    """The value of a fact that is valid after so many rounds."""
    return fact.value if not fact.stale or fact.late <= after else fact.stale


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_facts_survive_five_compactions_and_stale_values_do_not(
    fake_daemon: FakeDaemon, client: AsyncDaemonClient, seed: int
) -> None:
    made = make_chat(seed, load_slots().tune, tokens=4000)
    stated = [fact for fact in made.facts if fact.kind != "never said"]
    chat = Chat()
    add_turns(chat, made.turns)
    for number in range(1, 6):
        if number > 1:
            add_turns(chat, made.rounds[number - 2])
        fake_daemon.script(NOTES)
        chat.add_compaction(await Compactor(client, chat, None).run())
        sent = " ".join(message["content"] for message in request_messages(chat))
        originals = sum(len(message.text) for message in chat.path)
        assert len(sent) < 0.26 * originals
        lost = [fact for fact in stated if not says(sent, current(fact, number))]
        assert len(lost) <= 4, (number, lost)
        # Old values occur only in quotes of their corrections.
        stale = [f for f in stated if f.stale and f.late <= number and f.before in sent]
        assert len(stale) <= 1, (number, stale)
