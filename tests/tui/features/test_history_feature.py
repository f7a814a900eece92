"""Restoring chats: unfinished answers, drafts, queued prompts, and answers of other programs."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from ingle.daemon.client.generation_stream import GenerationFollower
from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.message import QueuedPrompt
from ingle.tui.screens.chat_list_screen import ChatListScreen
from ingle.tui.settings.chat_folders import ChatFolders
from tests.harness.fake_daemon import Answer, FakeGeneration

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat


@pytest.fixture
def folders(tmp_path: Path) -> ChatFolders:
    return ChatFolders(tmp_path / "chats", tmp_path / "config")


LEAVE_OPEN = """
import os, sys
from pathlib import Path
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history

store, chat = open_history(Path(sys.argv[1]), print), Chat()
store.add_chat(chat)
prompt = chat.add(Message(role="user", content="tell me"))
store.add_message(chat.id, prompt)
given = sys.argv[3] if len(sys.argv) > 3 else ""
answer = Message(role="assistant", parent=prompt.id, model="smollm2:135m", content=given)
chat.add(answer)
store.add_message(chat.id, answer)
store.append(answer.id, "The first ")
if sys.argv[2]:
    store.set_generation(answer.id, sys.argv[2])
store.flush(10)
print(chat.id, flush=True)
os.kill(os.getpid(), 9)
"""


def _leave_open(folders: ChatFolders, generation: str, given: str = "") -> str:
    """Run a program that is killed while it writes an answer; returns the chat's id."""
    command = [sys.executable, "-P", "-c", LEAVE_OPEN, str(folders.chats), generation, given]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


async def test_answer_still_running_in_the_daemon_is_resumed(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    chat = _leave_open(folders, "gen-1")
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first half ", "tokens": 3})
    async with open_chat(folders=folders) as screen:
        await screen.until_shown("The first half")
        generation.push("delta", {"text": "and the rest.", "tokens": 3})
        generation.push("finished", {"reason": "stop", "completion_tokens": 6})
        await screen.until_shown("The first half and the rest.")
        await screen.until(lambda: screen.screen.turn is None)
        store = screen.screen.store
        assert store is not None
        kept = store.load(chat)
    assert kept is not None
    assert [m.content for m in kept.path] == ["tell me", "The first half and the rest."]
    assert kept.path[1].ending == "answered"


async def test_answer_unknown_to_the_daemon_is_interrupted(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    chat = _leave_open(folders, "gen-9")
    async with open_chat(folders=folders) as screen:
        await screen.until_shown("■ interrupted")
        assert "The first" in screen.screen_text
        store = screen.screen.store
        assert store is not None
        kept = store.load(chat)
    assert kept is not None
    assert kept.path[1].ending == "interrupted"


async def test_answer_without_generation_is_interrupted(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    chat = _leave_open(folders, "")
    async with open_chat(folders=folders) as screen:
        await screen.until_shown("on disk")
        store = screen.screen.store
        assert store is not None

        def ended() -> bool:
            kept = store.load(chat)
            return kept is not None and kept.path[1].ending == "interrupted"

        await screen.until(ended)


@pytest.mark.slow
async def test_messages_and_draft_are_saved_and_restored(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as screen:
        await screen.send("hello")
        await screen.until_shown("Hello there.")
        await screen.until(lambda: screen.screen.turn is None)
        await screen.pilot.press(*"draft")
        chat = screen.screen.chat
        screen.screen.open_chat(ChatTree())
        assert screen.draft == ""
        store = screen.screen.store
        assert store is not None
        kept = store.load(chat.id)
        assert kept is not None
        assert [m.content for m in kept.path] == ["hello", "Hello there."]
        assert kept.path[1].facts.completion_tokens == 2
        screen.screen.open_chat(kept)
        await screen.until_shown("Hello there.")
        await screen.until(lambda: screen.draft == "draft")


@pytest.mark.slow
async def test_temporary_chat_writes_nothing_to_disk(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders, temporary=True) as screen:
        await screen.send("secret-word")
        await screen.until_shown("Hello there.")
        await screen.pilot.press(*"secret-draft")
        screen.screen.close()
    files = [path for path in folders.chats.rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret" in path.read_bytes()]
    body = next(r for r in fake_daemon.requests if r.target == "/ingle/v1/generations").body
    assert body["private"] is True


async def test_temporary_chat_is_not_replaced_by_an_unfinished_one(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    _leave_open(folders, "gen-1")
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first half.", "tokens": 3})
    generation.push("finished", {"reason": "stop", "completion_tokens": 3})
    async with open_chat(folders=folders, temporary=True) as screen:
        await screen.until_notified("is still running; ctrl+g")
        assert screen.screen.chat.temporary


@pytest.mark.slow
async def test_queued_prompts_stay_in_their_chat_and_edits_stay_edits(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat() as screen:
        await screen.send("hello")
        await screen.until_shown("Hello there.")
        await screen.until(lambda: screen.screen.turn is None)
        chat = screen.screen
        first = chat.chat.path[0]
        chat.queue.prompts += (QueuedPrompt("changed", (), first),)
        chat.return_queue()
        assert screen.draft == "changed"
        await screen.pilot.press("enter")
        await screen.until(lambda: chat.turn is None and len(chat.chat.children(None)) == 2)
        chat.queue.prompts += (QueuedPrompt("for this chat"),)
        chat.open_chat(ChatTree())
        assert len(chat.queue.prompts) == 0


async def test_resumed_continuation_is_appended_to_its_start(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    _leave_open(folders, "gen-1", "Said before. ")
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first half.", "tokens": 3})
    generation.push("finished", {"reason": "stop", "completion_tokens": 3})
    async with open_chat(folders=folders) as screen:
        await screen.until_shown("The first half.")
        await screen.until(lambda: screen.screen.turn is None)
        leaf = screen.screen.chat.leaf
        assert leaf is not None
        assert leaf.content == "Said before. The first half."


async def test_opening_the_chat_of_a_background_answer_saves_it_once(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    chat = _leave_open(folders, "gen-1")
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first half ", "tokens": 3})
    async with open_chat(folders=folders, temporary=True) as screen:
        await screen.until_notified("is still running; ctrl+g")
        store = screen.screen.store
        assert store is not None
        left = store.load(chat)
        assert left is not None
        screen.screen.open_chat(left)
        await screen.until_shown("The first half")
        generation.push("delta", {"text": "and the rest.", "tokens": 3})
        generation.push("finished", {"reason": "stop", "completion_tokens": 6})
        await screen.until(lambda: screen.screen.turn is None)
        kept = store.load(chat)
    assert kept is not None
    assert kept.path[1].content == "The first half and the rest."


async def test_generation_id_is_saved_before_the_daemon_replies(
    open_chat: OpenChat, folders: ChatFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def without_reply(_client: object, _request: object, name: str) -> None:
        asked.append(name)
        await asyncio.Event().wait()

    monkeypatch.setattr(GenerationFollower, "start", without_reply)
    async with open_chat(folders=folders) as screen:
        await screen.send("tell me")
        await screen.until(lambda: asked)
        store = screen.screen.store
        assert store is not None
        kept = store.load(screen.screen.chat.id)
    assert kept is not None
    assert [kept.path[1].generation] == asked


WRITE_ON = """
import sys
from pathlib import Path
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.history_store import open_history

store, chat = open_history(Path(sys.argv[1]), print), Chat()
store.add_chat(chat)
prompt = chat.add(Message(role="user", content="tell me"))
store.add_message(chat.id, prompt)
answer = chat.add(Message(role="assistant", parent=prompt.id, model="smollm2:135m"))
store.add_message(chat.id, answer)
store.set_generation(answer.id, "gen-1")
store.append(answer.id, "The first ")
store.flush(10)
print(chat.id, flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        store.end_message(answer.id, "answered", MessageFacts())
    else:
        store.append(answer.id, line[:-1])
    store.flush(10)
    print("done", flush=True)
"""


class Writer:
    """Another running program that writes an answer to the store."""

    def __init__(self, folders: ChatFolders) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", WRITE_ON, str(folders.chats)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.chat = self._read_line()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def write_piece(self, line: str) -> None:
        """Have it append a piece of text, or with "end" finish the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        assert self._read_line() == "done"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def writer(folders: ChatFolders) -> Iterator[Writer]:
    made = Writer(folders)
    yield made
    made.kill()


def rows_of(folders: ChatFolders, table: str) -> int:
    """The number of rows of a table of the store."""
    with closing(sqlite3.connect(folders.chats / "history.db")) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


async def watch(screen: Chat, fake_daemon: FakeDaemon, writer: Writer) -> FakeGeneration:
    """Open the chat in which another program is writing an answer."""
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first ", "tokens": 2})
    store = screen.screen.store
    assert store is not None
    await screen.until(lambda: screen.screen.state.connected)
    loaded = store.load(writer.chat)
    assert loaded is not None
    screen.screen.open_chat(loaded)
    await screen.until_shown("The first")
    generation.push("delta", {"text": "half.", "tokens": 2})
    await screen.until_shown("The first half.")
    return generation


async def test_answer_of_another_program_is_shown_but_not_saved_twice(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders, writer: Writer
) -> None:
    async with open_chat(folders=folders) as screen:
        generation = await watch(screen, fake_daemon, writer)
        generation.push("finished", {"reason": "stop", "completion_tokens": 4})
        await screen.until(lambda: screen.screen.turn is None)
        writer.write_piece("half, as it wrote it.")
        writer.write_piece("end")
        await screen.until_shown("The first half, as it wrote it.")
        assert rows_of(folders, "pieces") == 2
        assert rows_of(folders, "endings") == 1
        store = screen.screen.store
        assert store is not None
        kept = store.load(writer.chat)
    assert kept is not None
    assert kept.path[1].content == "The first half, as it wrote it."


async def test_leaving_a_chat_does_not_cancel_another_programs_answer(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders, writer: Writer
) -> None:
    async with open_chat(folders=folders) as screen:
        await watch(screen, fake_daemon, writer)
        screen.screen.open_chat(ChatTree())
        writer.write_piece("half.")
        writer.write_piece("end")
        store = screen.screen.store
        assert store is not None
        assert store.flush()
        await screen.screen.client.request_json("GET", "/health")
        assert fake_daemon.cancelled == []
        assert screen.screen.turn is None
    assert rows_of(folders, "endings") == 1


async def test_observer_saves_the_answer_if_the_writer_dies(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders, writer: Writer
) -> None:
    async with open_chat(folders=folders) as screen:
        generation = await watch(screen, fake_daemon, writer)
        writer.kill()
        generation.push("finished", {"reason": "stop", "completion_tokens": 4})
        await screen.until(lambda: screen.screen.turn is None)
        await screen.until(lambda: rows_of(folders, "endings") == 1)
        store = screen.screen.store
        assert store is not None
        kept = store.load(writer.chat)
    assert kept is not None
    assert kept.path[1].content == "The first half."
    assert kept.path[1].ending == "answered"


@pytest.mark.parametrize("ends_first", [True, False])
async def test_background_answer_ending_during_load_is_saved_once(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders, ends_first: bool
) -> None:
    chat = _leave_open(folders, "gen-1")
    generation = fake_daemon.generations["gen-1"] = FakeGeneration(Answer())
    generation.push("delta", {"text": "The first half ", "tokens": 3})
    async with open_chat(folders=folders, temporary=True) as screen:
        await screen.until_notified("is still running; ctrl+g")
        store = screen.screen.store
        assert store is not None
        loaded = store.load(chat)  # the answer ends before or while the screen opens it
        assert loaded is not None
        if ends_first:
            generation.push("delta", {"text": "and the rest.", "tokens": 3})
            generation.push("finished", {"reason": "stop", "completion_tokens": 6})
            await screen.until(lambda: store.flush() and rows_of(folders, "endings") == 1)
        screen.screen.open_chat(loaded)
        if not ends_first:
            generation.push("delta", {"text": "and the rest.", "tokens": 3})
            generation.push("finished", {"reason": "stop", "completion_tokens": 6})
        await screen.until_shown("The first half and the rest.")
        await screen.until(lambda: screen.screen.turn is None)
        kept = store.load(chat)
        asked = [r.target for r in fake_daemon.requests if "after=" in r.target]
    assert kept is not None
    assert kept.path[1].content == "The first half and the rest."
    assert rows_of(folders, "endings") == 1
    assert len(asked) == (1 if ends_first else 2)


@pytest.mark.slow
async def test_queued_prompts_survive_a_crash(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders
) -> None:
    fake_daemon.script("The first half", "never", gate_before=1)
    async with open_chat(folders=folders) as screen:
        await screen.send("tell me")
        await screen.until_shown("The first half")
        await screen.send("and then?")
        await screen.until(lambda: len(screen.screen.queue.prompts) == 1)
        await screen.pilot.press(*"more")
        store, chat = screen.screen.store, screen.screen.chat
        assert store is not None
        await screen.until(lambda: store.draft(chat.id) == "and then?\n\nmore")  # kill -9 here
        loaded = store.load(chat.id)
        assert loaded is not None
        screen.screen.open_chat(ChatTree())
        assert store.draft(chat.id) == "and then?\n\nmore"
        screen.screen.open_chat(loaded)
        await screen.until(lambda: screen.draft == "and then?\n\nmore")


async def test_last_chat_and_examples_are_suggested(
    open_chat: OpenChat, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.until_shown("tab chooses a suggestion")
        assert "continue:" not in chat.screen_text
        await chat.pilot.press("tab", "enter")
        await chat.until_shown("Hello there.")
        assert fake_daemon.prompts[0][-1]["content"] == "Why is the sky blue?"
        store = chat.screen.store
        assert store is not None
        await chat.until(lambda: store.recent(1))  # it is written in a thread
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.until_shown("continue: Why is the sky blue")
        await chat.pilot.press("tab", "down", "up", "enter")
        await chat.until_shown("Hello there.")
        assert len(chat.screen.chat.path) == 2


async def test_open_filters_by_its_argument(open_chat: OpenChat, folders: ChatFolders) -> None:
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.send("/open Five hundred")
        await chat.until(lambda: isinstance(chat.app.screen, ChatListScreen))
        assert chat.app.screen.query_one(Input).value == "Five hundred"
