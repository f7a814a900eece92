"""Search across all saved chats: matching, filters, ranking, snippets."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Attachment, Message
from ingle.tui.history import chat_search
from ingle.tui.history.chat_search import SnippetMaker
from ingle.tui.history.database.history_errors import SearchSuperseded
from ingle.tui.history.history_store import HistoryStore
from ingle.tui.history.search_query import parse_query

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from .conftest import NewSavedChat, SavedChat


def snippets(store: HistoryStore, text: str) -> list[str]:
    return [hit.snippet.text for hit in store.search(text)]


def test_messages_are_searchable_immediately(saved_chat: SavedChat) -> None:
    saved_chat.add_prompt("Plan a trip to Kyoto")
    saved_chat.answer("Take the ", "Shinkansen.")
    hits = saved_chat.store.search("kyo")
    assert [hit.snippet.text for hit in hits] == ["Plan a trip to Kyoto"]
    assert [hit.snippet.text[slice(*span)] for hit in hits for span in hit.snippet.hits] == [
        "Kyoto"
    ]
    assert (hits[0].role, hits[0].title) == ("user", "Plan a trip to Kyoto")
    answer = saved_chat.store.search("shinkansen")[0]
    assert (answer.role, answer.model, answer.message) == (
        "assistant",
        "tiny",
        saved_chat.chat.path[1].id,
    )


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ("車椅子", 1),
        ("椅", 1),
        ("서울", 1),
        ("울에서", 1),
        ("cafe", 1),
        ("ไทย", 1),
        ('"café au lait"', 1),
        ('"lait au café"', 0),
        ("au café", 1),
        ("nothing", 0),
        ("", 0),
        ('"', 0),
        ("model:tiny", 3),
    ],
)
def test_search_handles_scripts_diacritics_and_phrases(
    saved_chat: SavedChat, query: str, hits: int
) -> None:
    saved_chat.add_prompt("京都の車椅子 서울에서 ไทยแลนด์")
    saved_chat.add_prompt("Un Café au lait, bitte")
    saved_chat.answer("Gern.")
    assert len(saved_chat.store.search(query)) == hits


def test_search_filters(store: HistoryStore) -> None:
    now = time.time()
    for name, age, settings, model in (
        ("old", 800, ChatSettings(folder="Work"), "qwen-7b"),
        ("new", 1, ChatSettings(pinned=True), "llama-3"),
    ):
        chat = Chat(settings, id=name, created=now - age * 86400)
        store.add_chat(chat)
        prompt = Message(role="user", content=f"tides {name}", created=chat.created)
        answer = Message(
            role="assistant",
            content="the moon",
            parent=prompt.id,
            ending="answered",
            model=model,
            created=chat.created,
        )
        store.add_message(name, prompt)
        store.add_message(name, answer)
    year = time.localtime(now).tm_year - 1
    assert snippets(store, "tides") == ["tides new", "tides old"]
    assert snippets(store, "tides folder:work") == ["tides old"]
    assert snippets(store, "tides is:pinned") == ["tides new"]
    assert snippets(store, "model:qwen tides") == ["tides old"]
    assert snippets(store, f"tides before:{year}") == ["tides old"]
    assert snippets(store, f"tides after:{year}") == ["tides new"]
    assert snippets(store, "model:none tides") == []
    assert len(store.search("is:pinned")) == 2


def test_titles_rank_first_and_hits_per_chat_are_limited(
    store: HistoryStore, new_saved_chat: NewSavedChat
) -> None:
    loud, quiet = new_saved_chat(store), new_saved_chat(store)
    quiet.add_prompt("one word about tides")
    for _ in range(10):
        loud.add_prompt("tides tides tides")
    quiet.chat.settings.title = "Tides of the sea"
    store.set_settings(quiet.chat.id, quiet.chat.settings)
    hits = store.search("tides")
    assert (hits[0].chat, hits[0].message) == (quiet.chat.id, None)
    assert [hit.chat for hit in hits].count(loud.chat.id) == 3
    assert quiet.chat.path[0].id in [hit.message for hit in hits]


def test_latest_of_several_titles_is_first(
    store: HistoryStore, new_saved_chat: NewSavedChat
) -> None:
    chats = [new_saved_chat(store) for _ in range(3)]
    for number, saved in enumerate((chats[1], chats[2], chats[0])):
        saved.add_prompt(f"prompt {number}")
        saved.chat.settings.title = f"Tides {number}"
        store.set_settings(saved.chat.id, saved.chat.settings)
    assert [hit.title for hit in store.search("tides")] == ["Tides 2", "Tides 1", "Tides 0"]


@pytest.mark.parametrize("query", ["tides", "tides after:1990"])
def test_older_matches_are_ranked_where_the_newest_are_of_few_chats(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """The newest 4 matches, the 16 before them and the 64 before those, and no more."""
    monkeypatch.setattr(chat_search, "CANDIDATES", 4)
    chats = ["beyond", "last", *["third"] * 63, *["second"] * 16, *["first"] * 4]
    for name in dict.fromkeys(chats):
        store.add_chat(Chat(id=name))
    for name in chats:
        store.add_message(name, Message(role="user", content="tides"))
    found = [hit.chat for hit in store.search(query)]
    assert sorted(found) == sorted(["first", "second", "third"] * 3 + ["last"])
    assert len(store.search(query, 6)) == 6


def test_attachments_are_searched(store: HistoryStore) -> None:
    chat = Chat()
    store.add_chat(chat)
    files = (Attachment("server.log", "line one\nsegfault at 0x0\n"),)
    store.add_message(chat.id, Message(role="user", content="Why?", attachments=files))
    assert "segfault" in snippets(store, "segfault")[0]


def test_newer_search_supersedes_older_ones(saved_chat: SavedChat) -> None:
    saved_chat.add_prompt("tides")
    store = saved_chat.store
    store.search("tides")
    held = store._searcher.lock  # pyright: ignore[reportPrivateUsage]
    outcome: list[str] = []

    def search(text: str) -> None:
        try:
            outcome.append(f"{text}: {len(store.search(text))}")
        except SearchSuperseded:
            outcome.append(f"{text}: superseded")

    held.acquire()
    threads = [threading.Thread(target=search, args=(text,)) for text in ("ti", "tid", "tide")]
    for number, thread in enumerate(threads):
        thread.start()
        while store._newest_search < number + 2:  # pyright: ignore[reportPrivateUsage]
            time.sleep(0.001)
    held.release()
    for thread in threads:
        thread.join()
    assert sorted(outcome) == ["ti: superseded", "tid: superseded", "tide: 1"]


def test_snippet_is_one_safe_line_around_the_hit() -> None:
    query = parse_query("needle ")
    text = "hay \n" * 200 + "a \x1b[31mNeedle\x1b[0m here " + "straw " * 200
    snippet = SnippetMaker(query.terms).make(text, 100)
    assert len(snippet.text) <= 100
    assert snippet.text.startswith("…hay")
    assert snippet.text.endswith("…")
    assert "\x1b" not in snippet.text
    assert [snippet.text[slice(*span)] for span in snippet.hits] == ["Needle"]
