"""What a history answers is as recorded: lists, statistics, searches, exports and re-imports.

A deliberate change is recorded anew: delete `recorded_history.txt` and run this file.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import (
    Attachment,
    CompactionRecord,
    Ending,
    Message,
    MessageFacts,
    RequestedCall,
    Role,
    ToolStep,
)
from ingle.tui.history.chat_export import export_html, export_markdown
from ingle.tui.history.chat_search import SnippetMaker
from ingle.tui.history.history_store import HistoryStore, open_history
from ingle.tui.history.ingle_json import export_json
from ingle.tui.history.search_query import parse_query
from tests.harness.recorded_lines import assert_recorded

if TYPE_CHECKING:
    from .conftest import MakeStore

RECORDED = Path(__file__).with_name("recorded_history.txt")
NOW = 1_700_000_000.0
DAY = 86400.0
WORDS = (
    "tides",
    "Moon",
    "cafés",
    "京都",
    "the",
    "of",
    "a1",
    "x\x1b[2J",
    "Kyotos",
    "reef-fish",
    "\n\n",
)
QUERIES = (
    *("tides", "ti", "t", "moon kyoto", "kyoto t", '"the moon"', "京", "cafe", "CAFÉS", "reef"),
    *("model:qwen", "model:QW tides", "model:none", "folder:work", "folder:WO moon", "is:pinned"),
    *("before:2023-11-12", "after:2023-11-12", "tides before:2023-11", "after:2023 before:2024"),
    *("is:open tides", 'folder:"sea side"', "tides moon the of", "-- ''", "missing", "title"),
)


def sample(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def facts(chance: random.Random, role: str) -> MessageFacts:
    if role == "tool":
        call = RequestedCall("c1", "edit", '{"path":"a"}')
        return MessageFacts(
            step=ToolStep(call, "Edited `a`.", diff="-a\n+b", failed=chance.random() < 0.5)
        )
    return MessageFacts(
        prompt_tokens=chance.randrange(3),
        completion_tokens=chance.choice([0, 1, 2, 40]),
        decode_seconds=chance.choice([0.0, 0.5, 4.0]),
        first_token=chance.choice([None, 0.25, 1.0]),
        route=chance.choice(["local", "local", "acme/big"]),
        calls=(RequestedCall("c1", "edit", "{}"),) if chance.random() < 0.2 else (),
    )


def fill(store: HistoryStore, chance: random.Random) -> list[str]:
    """Keep chats of all shapes; returns their ids."""
    names = [f"{number:022x}" for number in range(6)]
    for number, name in enumerate(names):
        created = NOW - chance.choice([0.5, 20, 300]) * DAY - number
        settings = ChatSettings(
            title=chance.choice(["", "", "Moon tides title", "Other title"]),
            model=chance.choice([None, "qwen-7b"]),
            folder=chance.choice(["", "Work", "sea side", "alpha"]),
            pinned=chance.random() < 0.3,
        )
        chat = Chat(settings, id=name, created=created)
        store.add_chat(chat)
        for place in range(number + number % 3 + 1):
            add_message(store, chat, f"{name[:-2]}{number}{place:x}", created + 60 * place, chance)
        if number % 3 == 1:
            store.save_draft(name, f"draft {number}")
        if number == 5:
            summary = CompactionRecord(at=chat.path[-1].id, summary="so far", id="s1", created=NOW)
            store.add_compaction(name, summary)
            other = CompactionRecord(at=chat.path[0].id, summary="less", id="s2", created=NOW)
            store.add_compaction(name, other)
            store.undo_compaction(name, "s2")
    store.save_draft("f" * 22, "only a draft")
    return names


def add_message(
    store: HistoryStore, chat: Chat, name: str, created: float, chance: random.Random
) -> None:
    known = list(chat.messages)
    parent = chance.choice([*known[-1:], *known[-1:], *known]) if known else None
    role: Role = chance.choice(["user", "assistant", "tool"]) if known else "user"
    message = Message(
        role=role,
        content=sample(chance, chance.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 60])),
        parent=parent,
        id=name,
        created=created,
        model=chance.choice(["qwen-7b", "Llama-3", "acme/big"]) if role == "assistant" else "",
        reasoning=sample(chance, 3) if role == "assistant" and chance.random() < 0.4 else "",
        attachments=(Attachment("log.txt", "reef one\ntwo"),) if chance.random() < 0.2 else (),
    )
    chat.add(message)
    store.add_message(chat.id, message)
    if role == "assistant":
        for _ in range(chance.randrange(3)):
            store.append(name, sample(chance, 2), sample(chance, 1))
    if role != "user":
        ending: Ending = chance.choice(["answered", "length", "stopped", "failed", "interrupted"])
        store.end_message(name, ending, facts(chance, role))
    if chance.random() < 0.2:
        store.pin(name, True)
    if chance.random() < 0.2:
        store.choose(chat.id, chance.choice(list(chat.messages)))


def answers_of(store: HistoryStore, names: list[str]) -> Iterator[str]:
    """What the store says of everything in it."""
    for limit, folder in ((200, None), (3, None), (200, "Work"), (1, "alpha")):
        yield from (f"recent {limit} {folder}: {chat}" for chat in store.recent(limit, folder))
    yield f"folders {store.folders()}"
    yield from (f"prompts {limit}: {store.prompts(limit)}" for limit in (1, 3, 200))
    yield f"routes {store.route_counts()}"
    yield from map(str, store.model_speeds().values())
    for query in QUERIES:
        for limit in (50, 2):
            yield f"{query!r} {limit}"
            for hit in store.search(query, limit):
                spans = [hit.snippet.text[slice(*span)] for span in hit.snippet.hits]
                yield f"  {hit.chat[-2:]} {hit.message and hit.message[-2:]} {hit.title!r} {spans}"
                yield f"  {hit.role} {hit.model} {hit.folder} {hit.pinned} {hit.snippet.text!r}"
    for name in names:
        chat = store.load(name)
        assert chat is not None
        yield f"{name[-1]} draft {store.draft(name)!r} {chat.settings} {chat.created}"
        yield f"  path {[m.id[-2:] for m in chat.path]} chosen {sorted(chat.chosen_ids())}"
        yield f"  {list(chat.compactions)} {chat.undone}"
        yield f"  given {[store.given(message) for message in chat.messages]}"
        yield from export_json(chat).splitlines()
    for name in names[-2:]:
        chat = store.load(name)
        assert chat is not None
        yield from export_markdown(chat).splitlines()
        yield from re.sub(r"(?s)<head>.*?</head>", "", export_html(chat)).splitlines()


def snippets() -> Iterator[str]:
    """Snippets of words at all places, in all widths."""
    maker = SnippetMaker(parse_query('moon "the ti" caf').terms)
    text = sample(random.Random(3), 90)
    for start in range(0, 200, 37):
        for width in (1, 10, 39, 40, 41, 240):
            made = maker.make(text[start:], width)
            yield f"{start} {width} {made.text!r} {made.hits}"
    yield str([maker.matches_all(text) for text in ("moon the tides café", "moon the caf", "")])
    yield str(SnippetMaker([]).make(text, 30))


@pytest.fixture
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: NOW)
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.skipif(os.name == "nt", reason="sets the time zone of the process")
@pytest.mark.usefixtures("fixed_time")
def test_recorded_history(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    names = fill(store, random.Random(11))
    lines = [*answers_of(store, names), *snippets()]
    assert_recorded(RECORDED, lines)
    copies = open_history(tmp_path / "copies", lines.append)
    for name in names:
        chat = store.load(name)
        assert chat is not None
        (tmp_path / "one.json").write_text(export_json(chat))
        copies.import_file(tmp_path / "one.json", lambda _: True)
    for name in names:
        found, chat = copies.load(name), store.load(name)
        assert found is not None
        assert chat is not None
        assert export_json(found) == export_json(chat)
    assert copies.close()
