"""The compactor: summary request, checks and compaction record, against a scripted daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages
from ingle.tui.chats.message import Attachment
from ingle.tui.compaction.apply_compaction import trim
from ingle.tui.compaction.compactor import CompactionProgress, Compactor
from ingle.tui.compaction.summary_notes import VERBATIM, CompactionRefused

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

MakeChat = Callable[..., Chat]
PROMPTS = (
    "The gate code is 4417 and the key hangs at Ilse's.",
    "Tell me about tulips.",
    "And about roses?",
    "What now?",
)


async def test_summary_request_extends_the_current_view_by_one_turn(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    fake_daemon.script(notes(facts="there is a gate"))
    compaction = await Compactor(client, chat, "smollm2:135m", focus="the garden").run()
    prompt = fake_daemon.prompts[0]
    assert prompt[:-1] == request_messages(chat)
    assert prompt[-1]["role"] == "user"
    assert "“What now?”" in prompt[-1]["content"]
    assert "the garden" in prompt[-1]["content"]
    body = next(r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations")
    assert body["conversation"] == chat.id
    assert body["sampling"] == {"temperature": 0}
    assert body["reasoning"] == {"budget": 256}
    assert "Open questions" in body["format"]["grammar"]
    assert compaction.at == chat.path[5].id
    assert compaction.turns == 3
    assert compaction.tokens_after < 0.7 * compaction.tokens_before


async def test_quotes_missing_from_the_summary_are_added(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    fake_daemon.script(notes(facts="there is a gate"))
    compaction = await Compactor(client, chat, None).run()
    assert compaction.summary.startswith(
        "Facts:\n- there is a gate\n"
        f"{VERBATIM}:\n- The gate code is 4417 and the key hangs at Ilse's."
    )


async def test_pinned_messages_are_kept_verbatim(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    chat.path[2].pinned = True
    fake_daemon.script(notes(facts="there is a gate"))
    compaction = await Compactor(client, chat, None).run()
    assert compaction.kept == (chat.path[2].id,)
    chat.add_compaction(compaction)
    assert "Tell me about tulips." in request_messages(chat)[0]["content"]


async def test_third_summary_replaces_the_earlier_ones(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    more_turns: Callable[..., None],
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    before = json.dumps(request_messages(chat))
    for round_number in (1, 2, 3):
        fake_daemon.script(notes(facts=f"round {round_number}"))
        compaction = await Compactor(client, chat, None).run()
        chat.add_compaction(compaction)
        more_turns(chat, *(f"Topic {round_number}{letter}?" for letter in "abcd"))
    chain = chat.compaction_chain()
    assert [step.after for step in chain] == [None]
    assert "Carry over every bullet" in fake_daemon.prompts[2][-1]["content"]
    assert "Carry over every bullet" not in fake_daemon.prompts[1][-1]["content"]
    assert "The gate code is 4417" in request_messages(chat)[0]["content"]
    chat.undo_compaction(chain[0].id)
    assert len(chat.compaction_chain()) == 2
    for step in chat.compaction_chain():
        chat.undo_compaction(step.id)
    assert json.dumps(request_messages(chat)).startswith(before[:-1])


async def test_trimmed_attachments_stay_trimmed_after_a_full_summary(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    more_turns: Callable[..., None],
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    for number in (1, 2):
        fake_daemon.script(notes(facts=f"round {number}"))
        chat.add_compaction(await Compactor(client, chat, None).run())
        more_turns(chat, *(f"Topic {number}{letter}?" for letter in "abcdefgh"))
    more_turns(chat, "Read this.", answer="I have.")
    chat.path[-2].attachments = (Attachment(name="log.txt", text="a line of the log\n" * 400),)
    more_turns(chat, "Hm.", answer="Yes?")
    chat.add_compaction(trim(chat))
    assert "a line of the log" not in json.dumps(request_messages(chat))
    fake_daemon.script(notes(facts="round 3"))
    compaction = await Compactor(client, chat, None).run()
    chat.add_compaction(compaction)
    assert compaction.after is None
    assert "a line of the log" not in json.dumps(request_messages(chat))


async def test_trim_leaves_pinned_messages_whole(
    make_chat: MakeChat, more_turns: Callable[..., None]
) -> None:
    chat = make_chat("Read this.", "And this.")
    pinned, other = (message for message in chat.path if message.role == "user")
    pinned.attachments = (Attachment(name="keep.txt", text="a pinned line\n" * 400),)
    other.attachments = (Attachment(name="drop.txt", text="another line\n" * 400),)
    pinned.pinned = True
    more_turns(chat, "Hm.", answer="Yes?")
    record = trim(chat)
    chat.add_compaction(record)
    sent = json.dumps(request_messages(chat))
    assert record.kept == (pinned.id,)
    assert ("a pinned line" in sent, "another line" in sent) == (True, False)
    other.pinned = True
    chat.undo_compaction(record.id)
    with pytest.raises(CompactionRefused, match="nothing to trim"):
        trim(chat)


async def test_pin_set_after_a_summary_is_kept_by_the_next_one(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    more_turns: Callable[..., None],
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    fake_daemon.script(notes(facts="round 1"))
    chat.add_compaction(await Compactor(client, chat, None).run())
    chat.path[2].pinned = True
    more_turns(chat, *(f"Topic {letter}?" for letter in "abcd"))
    fake_daemon.script(notes(facts="round 2"))
    second = await Compactor(client, chat, None).run()
    assert second.after is not None
    assert second.kept == (chat.path[2].id,)


async def test_summary_of_a_chat_changed_meanwhile_is_discarded(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    more_turns: Callable[..., None],
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    fake_daemon.script(notes(facts="round 1"))
    first = await Compactor(client, chat, None).run()
    chat.add_compaction(first)
    more_turns(chat, *(f"Topic {letter}?" for letter in "abcd"))
    fake_daemon.script(notes(facts="round 2"))
    meanwhile = Compactor(client, chat, None, changed=lambda _: chat.undo_compaction(first.id))
    with pytest.raises(CompactionRefused, match="meanwhile"):
        await meanwhile.run()


@pytest.mark.parametrize(
    ("texts", "words"), [([""], "empty"), (["Facts:\n- gate"], "lacks"), (["x" * 40], "lacks")]
)
async def test_invalid_summary_changes_nothing(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    texts: list[str],
    words: str,
) -> None:
    chat = make_chat(*PROMPTS)
    before = request_messages(chat)
    fake_daemon.script(*texts)
    with pytest.raises(CompactionRefused, match=words):
        await Compactor(client, chat, None).run()
    assert request_messages(chat) == before
    assert chat.compactions == {}


async def test_lost_reply_to_the_summary_request_is_recovered(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    fake_daemon.script(notes(facts="there is a gate"), reply_lost=True)
    compaction = await Compactor(client, make_chat(*PROMPTS), None).run()
    assert "there is a gate" in compaction.summary


@pytest.mark.slow
async def test_daemon_loss_during_compaction_changes_nothing(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    chat = make_chat(*PROMPTS)
    fake_daemon.script("User and goal:\n", notes(facts="there is a gate"), gate_before=1)
    stops: list[asyncio.Task[None]] = []

    def changed(progress: CompactionProgress) -> None:
        if progress.words == "writing" and not stops:
            stops.append(asyncio.create_task(fake_daemon.stop()))

    with pytest.raises(ClientError):
        await Compactor(client, chat, None, changed=changed).run()
    assert stops
    assert chat.compactions == {}


async def test_single_turn_is_not_compacted(client: AsyncDaemonClient, make_chat: MakeChat) -> None:
    with pytest.raises(CompactionRefused, match="nothing to compact"):
        await Compactor(client, make_chat("Only this?"), None).run()


async def test_compaction_with_too_little_saving_is_refused(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: MakeChat,
    notes: Callable[..., str],
) -> None:
    fake_daemon.script(notes(facts="a word and another word and a third word and more"))
    with pytest.raises(CompactionRefused, match="nothing changed"):
        await Compactor(client, make_chat("One?", "Two?", answer="Yes."), None).run()
