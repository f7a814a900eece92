"""Import of chats from other programs, from samples in their export formats."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.history.database.history_errors import HistoryError
from ingle.tui.history.history_store import HistoryStore
from ingle.tui.history.imports.import_chats import ImportReport, import_chats
from ingle.tui.history.imports.imported_chat import seconds
from ingle.tui.history.ingle_json import export_json

if TYPE_CHECKING:
    from ..conftest import MakeStore, SavedChat

Json = dict[str, Any]


def continue_import(report: ImportReport) -> bool:
    return True


def node(name: str, parent: str | None, role: str = "", text: str = "", **more: Any) -> Json:
    """A node of ChatGPT's mapping."""
    message: Json | None = None
    if role:
        message = {
            "id": name,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": more.pop("time", 1700000000.5),
            "content": more.pop("content", {"content_type": "text", "parts": [text]}),
            "status": "finished_successfully",
            "weight": 1.0,
            "metadata": more.pop("metadata", {}),
            "recipient": more.pop("recipient", "all"),
        }
    return {"id": name, "message": message, "parent": parent, "children": []}


def chatgpt() -> Json:
    nodes = [
        node("root", None),
        node("sys", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        node("u1", "sys", "user", "Why are there tides?", time=1700000001.0),
        node("a1", "u1", "assistant", "The wind.", metadata={"model_slug": "gpt-4o"}),
        node(
            "t2",
            "u1",
            "assistant",
            content={"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "Hm."}]},
        ),
        node("c2", "t2", "assistant", "search('tides')", recipient="web.run"),
        node("r2", "c2", "tool", "results"),
        node("a2", "r2", "assistant", "The moon.", metadata={"model_slug": "o3"}),
        node("a3", "a2", "assistant", "And the sun.", metadata={"model_slug": "o3"}),
        node(
            "u2",
            "a3",
            "user",
            content={
                "content_type": "multimodal_text",
                "parts": [{"content_type": "image_asset_pointer"}, "What is this?"],
            },
        ),
    ]
    return {
        "title": "Tides",
        "create_time": 1700000000.0,
        "update_time": 1700000100.0,
        "mapping": {each["id"]: each for each in nodes},
        "current_node": "a1",
        "conversation_id": "conv-1",
        "default_model_slug": "gpt-4o",
    }


def only_chat(store: HistoryStore) -> Chat:
    (summary,) = store.recent()
    chat = store.load(summary.id)
    assert chat is not None
    return chat


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_import_from_chatgpt(store: HistoryStore, tmp_path: Path, packed: bool) -> None:
    path = write(tmp_path / "conversations.json", [chatgpt()])
    if packed:
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            archive.writestr("chat.html", "<html>")
            archive.write(path, "export/conversations.json")
        path = tmp_path / "export.zip"
    report = store.import_file(path, continue_import)
    assert (report.chats, report.messages) == (1, 4)
    chat = only_chat(store)
    assert (chat.title, chat.created) == ("Tides", 1700000000.0)
    assert [message.content for message in chat.path] == ["Why are there tides?", "The wind."]
    answers = chat.children(chat.path[0].id)
    assert [(a.content, a.model, a.reasoning) for a in answers] == [
        ("The wind.", "gpt-4o", ""),
        ("The moon.\n\nAnd the sun.", "o3", "Hm."),
    ]
    assert [m.content for m in chat.children(answers[1].id)] == ["[image]\n\nWhat is this?"]
    assert chat.path[0].created == 1700000001.0
    assert store.search("moon")[0].chat == chat.id


def test_repeated_import_adds_only_new_messages(store: HistoryStore, tmp_path: Path) -> None:
    grown = chatgpt()
    path = write(tmp_path / "c.json", [grown])
    store.import_file(path, continue_import)
    before = export_json(only_chat(store))
    again = store.import_file(path, continue_import)
    assert (again.chats, again.messages) == (0, 0)
    assert "here already" in again.sentence()
    assert export_json(only_chat(store)) == before
    grown["mapping"]["u9"] = node("u9", "a1", "user", "Go on.")
    report = store.import_file(write(path, [grown]), continue_import)
    assert (report.chats, report.messages) == (0, 1)
    assert len(only_chat(store).messages) == 5


def test_import_from_claude(store: HistoryStore, tmp_path: Path) -> None:
    conversation = {
        "uuid": "b6be860d",
        "name": "Rent",
        "created_at": "2025-03-01T10:00:00.000000Z",
        "updated_at": "2025-03-01T10:05:00Z",
        "account": {"uuid": "x"},
        "chat_messages": [
            {
                "uuid": "m1",
                "text": "Read this.",
                "content": [{"type": "text", "text": "Read this."}],
                "sender": "human",
                "created_at": "2025-03-01T10:00:01.5Z",
                "attachments": [{"file_name": "lease.txt", "extracted_content": "600 a month"}],
                "files": [{"file_name": "photo.png"}],
            },
            {
                "uuid": "m2",
                "text": "Hm. It is 600.",
                "content": [
                    {"type": "thinking", "thinking": "Look for a number."},
                    {"type": "text", "text": "It is 600."},
                ],
                "sender": "assistant",
                "created_at": "2025-03-01T10:00:09Z",
                "attachments": [],
                "files": [],
            },
        ],
    }
    store.import_file(write(tmp_path / "conversations.json", [conversation]), continue_import)
    chat = only_chat(store)
    prompt, answer = chat.path
    assert prompt.content == "Read this.\n\n[file: photo.png]"
    assert [(a.name, a.text) for a in prompt.attachments] == [("lease.txt", "600 a month")]
    assert (answer.content, answer.reasoning) == ("It is 600.", "Look for a number.")
    assert answer.model == "claude"
    assert prompt.created == 1740823201.5


def test_import_from_claude_with_branches(store: HistoryStore, tmp_path: Path) -> None:
    def message(name: str, parent: str, sender: str) -> Json:
        return {"uuid": name, "parent_message_uuid": parent, "sender": sender, "text": name}

    conversation = {
        "uuid": "c",
        "name": "",
        "chat_messages": [
            message("one", "00000000-0000-4000-8000-000000000000", "human"),
            message("two", "one", "assistant"),
            message("three", "one", "assistant"),
        ],
        "current_leaf_message_uuid": "two",
    }
    store.import_file(write(tmp_path / "x.json", [conversation]), continue_import)
    chat = only_chat(store)
    assert [m.content for m in chat.path] == ["one", "two"]
    assert len(chat.children(chat.path[0].id)) == 2


def open_webui_message(name: str, parent: str | None, role: str, text: str, **more: Any) -> Json:
    """A message of Open WebUI's history."""
    return {"id": name, "parentId": parent, "role": role, "content": text, **more}


@pytest.fixture
def open_webui_chat(store: HistoryStore, tmp_path: Path) -> Chat:
    """The chat imported from an export of Open WebUI: one prompt, answered by two models."""
    attached = {"filename": "list.txt", "data": {"content": "a b c"}}
    thoughts = (
        '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 s</summary>\n'
        "&gt; Count them.\n&gt; Twice.\n</details>\nThree."
    )
    messages = {
        "q": open_webui_message(
            *("q", None, "user", "How many?"),
            childrenIds=["x", "y"],
            timestamp=1720000001,
            files=[{"type": "file", "name": "list.txt", "file": attached}],
        ),
        "x": open_webui_message(
            *("x", "q", "assistant", thoughts),
            childrenIds=[],
            model="llama3.2:3b",
            timestamp=1720000002,
        ),
        "y": open_webui_message(
            *("y", "q", "assistant", "Four."),
            childrenIds=[],
            model="qwen3:8b",
            timestamp=1720000003,
        ),
    }
    entry: Json = {
        "id": "e1",
        "user_id": "u",
        "title": "Counting",
        "pinned": True,
        "created_at": 1720000000,
        "updated_at": 1720000100,
        "chat": {
            "title": "Counting",
            "models": ["llama3.2:3b"],
            "params": {"system": "Be exact."},
            "history": {"messages": messages, "currentId": "x"},
            "messages": [],
            "timestamp": 1720000000123,
        },
    }
    store.import_file(write(tmp_path / "chat-export.json", [entry]), continue_import)
    return only_chat(store)


def test_open_webui_settings_are_imported(open_webui_chat: Chat) -> None:
    settings = open_webui_chat.settings
    assert (open_webui_chat.title, settings.pinned) == ("Counting", True)
    assert settings.system == "Be exact."


def test_open_webui_reasoning_is_separated_from_the_answer(open_webui_chat: Chat) -> None:
    prompt, answer = open_webui_chat.path
    assert prompt.content == "How many?"
    assert (answer.content, answer.reasoning) == ("Three.", "Count them.\nTwice.")


def test_open_webui_files_become_attachments(open_webui_chat: Chat) -> None:
    (attached,) = open_webui_chat.path[0].attachments
    assert (attached.name, attached.text) == ("list.txt", "a b c")


def test_open_webui_answers_of_several_models_are_branches(open_webui_chat: Chat) -> None:
    branches = open_webui_chat.children(open_webui_chat.path[0].id)
    assert [message.model for message in branches] == ["llama3.2:3b", "qwen3:8b"]


def test_open_webui_list_of_an_old_export_is_one_branch(
    store: HistoryStore, tmp_path: Path
) -> None:
    named = open_webui_message("q", None, "user", "one")
    unnamed = {"role": "assistant", "content": "two"}
    entry: Json = {"id": "e1", "chat": {"messages": [named, unnamed]}}
    store.import_file(write(tmp_path / "chat-export.json", [entry]), continue_import)
    assert [message.content for message in only_chat(store).path] == ["one", "two"]


def test_import_from_oterm(store: HistoryStore, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """CREATE TABLE "chat" ("id" INTEGER, "name" TEXT, "model" TEXT NOT NULL,
                "system" TEXT, "format" TEXT, "parameters" TEXT DEFAULT "{}",
                "keep_alive" INTEGER DEFAULT 5, "tools" TEXT DEFAULT "[]",
                PRIMARY KEY("id" AUTOINCREMENT));
            CREATE TABLE "message" ("id" INTEGER, "chat_id" INTEGER NOT NULL,
                "author" TEXT NOT NULL, "text" TEXT NOT NULL, "images" TEXT DEFAULT "[]",
                PRIMARY KEY("id" AUTOINCREMENT)
                FOREIGN KEY("chat_id") REFERENCES "chat"("id") ON DELETE CASCADE);
            INSERT INTO chat(name, model, system) VALUES ('Soup', 'llama3.2', 'Cook.');
            INSERT INTO message(chat_id, author, text) VALUES
                (1, 'user', 'Lentils?'), (1, 'assistant', 'Twenty minutes.');"""
        )
    assert store.import_file(path, continue_import).messages == 2
    assert store.import_file(path, continue_import).messages == 0
    chat = only_chat(store)
    assert (chat.title, chat.settings.system) == ("Soup", "Cook.")
    assert [(m.role, m.content) for m in chat.path] == [
        ("user", "Lentils?"),
        ("assistant", "Twenty minutes."),
    ]
    assert chat.path[1].model == "llama3.2"


def test_import_from_elia(store: HistoryStore, tmp_path: Path) -> None:
    path = tmp_path / "elia.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """CREATE TABLE chat (id INTEGER NOT NULL PRIMARY KEY, model VARCHAR NOT NULL,
                title VARCHAR, started_at DATETIME DEFAULT (CURRENT_TIMESTAMP),
                archived BOOLEAN NOT NULL);
            CREATE TABLE message (id INTEGER NOT NULL PRIMARY KEY, chat_id INTEGER,
                role VARCHAR NOT NULL, content VARCHAR NOT NULL, timestamp DATETIME,
                meta JSON, parent_id INTEGER, model VARCHAR,
                FOREIGN KEY(chat_id) REFERENCES chat (id));
            INSERT INTO chat VALUES (1, 'gpt-4o', NULL, '2024-06-01 08:00:00.000000', 0);
            INSERT INTO message(chat_id, role, content, timestamp, model) VALUES
                (1, 'system', 'Be kind.', '2024-06-01 08:00:00', 'gpt-4o'),
                (1, 'user', 'Hi, what is Elia?', '2024-06-01 08:00:01.250000', 'gpt-4o'),
                (1, 'assistant', 'A program.', '2024-06-01 08:00:03', 'gpt-4o');"""
        )
    store.import_file(path, continue_import)
    chat = only_chat(store)
    assert (chat.title, chat.settings.system) == ("What is Elia?", "Be kind.")
    assert chat.path[0].created == 1717228801.25
    assert chat.path[1].model == "gpt-4o"


def test_exported_json_round_trips(saved_chat: SavedChat, make_store: MakeStore) -> None:
    chat, store = saved_chat.chat, saved_chat.store
    root = saved_chat.add_prompt("root")
    saved_chat.answer("first", parent=root)
    saved_chat.add_prompt("below the first")
    second = saved_chat.answer("second", parent=root)
    below = [saved_chat.add_prompt(text, parent=second) for text in ("left", "right")]
    saved_chat.answer("third", parent=root)
    for message in (below[0], chat.children(root.id)[0]):
        chat.choose(message)
    text = export_json(chat)
    file = store.database.folder / "chat.json"
    store.flush()
    file.write_text(text)
    store.delete_chat(chat.id)
    store.flush()
    report = store.import_file(file, continue_import)
    assert report.chats == 1
    loaded = store.load(chat.id)
    assert loaded is not None
    assert export_json(loaded) == text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{}", "not an export"),
        (b"[1, 2]", "no chats"),
        (b'[{"mapping": 3}]', "`mapping` is not an object"),
        (b'[{"chat_messages": {}}]', "`chat_messages` is not a list"),
        (b'[{"chat": {"history": 1}}]', "`chat.history.messages` is not an object"),
        (b'{"format": "ingle chat", "version": 1}', "missing required field `id`"),
        (b"[" * 100_000, "not JSON"),
        (b"PK\x03\x04 but no archive", "cannot be unpacked"),
        (b"SQLite format 3\x00 but no database", "cannot be read"),
    ],
)
def test_malformed_files_are_reported(
    store: HistoryStore, tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(HistoryError) as caught:
        store.import_file(path, continue_import)
    assert complaint in caught.value.message
    assert store.recent() == []


def ingle_export(*messages: dict[str, object], **changes: object) -> dict[str, object]:
    """A chat in ingle's export format, possibly malformed."""
    hi: dict[str, object] = {"role": "user", "content": "hi", "id": "m", "created": 1.0}
    chat: dict[str, object] = {"format": "ingle chat", "version": 1, "id": "c", "created": 1.0}
    for name in ("chosen", "compactions", "undone"):
        chat[name] = []
    chat["settings"] = dict[str, object]()
    chat["messages"] = [hi | message for message in messages] or [hi]
    return chat | changes


@pytest.mark.parametrize(
    ("chat", "complaint"),
    [
        (ingle_export({}, {"content": "lost"}), "same id"),
        (ingle_export({"parent": "m"}), "missing before"),
        (
            ingle_export(compactions=[{"id": "k", "at": "m", "summary": "s", "after": "k"}]),
            "not before it",
        ),
    ],
)
def test_invalid_ingle_exports_are_refused(
    store: HistoryStore, tmp_path: Path, chat: dict[str, object], complaint: str
) -> None:
    with pytest.raises(HistoryError, match=complaint):
        store.import_file(write(tmp_path / "c.json", [chat]), continue_import)
    assert store.recent() == []


def test_times_out_of_range_are_clamped(store: HistoryStore, tmp_path: Path) -> None:
    chat = ingle_export(
        {"created": 1e300}, {"created": -1e300, "id": "n", "parent": "m"}, created=1e18
    )
    store.import_file(write(tmp_path / "c.json", [chat]), continue_import)
    loaded = store.load("c")
    assert loaded is not None
    for stamp in (loaded.created, *(message.created for message in loaded.path)):
        assert time.localtime(stamp).tm_year in (1970, 9892)


def test_malformed_chat_does_not_stop_the_import(store: HistoryStore, tmp_path: Path) -> None:
    report = store.import_file(
        write(tmp_path / "c.json", [{"mapping": 1}, chatgpt()]), continue_import
    )
    assert (report.chats, report.failed) == (1, 1)
    assert "chat 1: `mapping` is not an object" in report.sentence()


def test_cycles_and_missing_parents_are_tolerated(store: HistoryStore, tmp_path: Path) -> None:
    conversation = chatgpt()
    conversation["mapping"]["u1"]["parent"] = "nobody"
    conversation["mapping"]["x"] = node("x", "y", "user", "round")
    conversation["mapping"]["y"] = node("y", "x", "user", "and round")
    store.import_file(write(tmp_path / "c.json", [conversation]), continue_import)
    assert len(only_chat(store).messages) == 4


def test_zip_bombs_are_refused(
    store: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.tui.history.imports.import_chats.MAX_BYTES", 1_000_000)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 5_000_000 + b"]")
    assert path.stat().st_size < 10_000
    with pytest.raises(HistoryError, match="1 GiB"):
        store.import_file(path, continue_import)


def test_missing_file_is_reported(store: HistoryStore, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        store.import_file(tmp_path / "nothing.json", continue_import)


@pytest.mark.parametrize(
    ("value", "stamp"),
    [
        (1700000000, 1.7e9),
        (1700000000123, 1700000000.123),
        (1700000000123456789, pytest.approx(1700000000.123, abs=0.001)),
        ("2024-06-01 08:00:00", 1717228800.0),
        ("2024-06-01T10:00:00+02:00", 1717228800.0),
        ("soon", None),
        (None, None),
        (-5, None),
        (True, None),
        (1e30, None),
    ],
)
def test_times_are_parsed(value: object, stamp: float | None) -> None:
    assert seconds(value) == stamp


KILLED = """
import sys
from pathlib import Path
from ingle.tui.history.history_store import open_history

store = open_history(Path(sys.argv[1]), print)
store.database.connect().close()
print("begun", flush=True)
store.import_file(Path(sys.argv[2]), lambda report: True)
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_interrupted_import_is_completed_by_the_next(
    make_store: MakeStore, folder: Path, tmp_path: Path
) -> None:
    conversations = [chatgpt() | {"conversation_id": f"conv-{n}"} for n in range(1500)]
    path = write(tmp_path / "conversations.json", conversations)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED, str(folder), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.5)
        child.kill()
    store = make_store()
    before = store.recent(10_000)
    assert {summary.messages for summary in before} <= {4}
    report = store.import_file(path, continue_import)
    assert report.chats == 1500 - len(before)
    assert len(store.recent(10_000)) == 1500


@pytest.mark.parametrize("stops_at", [1, 3, 9])
def test_import_is_saved_chat_by_chat_until_it_is_stopped(
    store: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_at: int
) -> None:
    monkeypatch.setattr("ingle.tui.history.imports.import_chats.COMMIT_SECONDS", -1.0)
    conversations = [chatgpt() | {"conversation_id": f"conv-{n}"} for n in range(5)]
    path = write(tmp_path / "conversations.json", conversations)
    seen: list[tuple[int, int, int]] = []

    def progress(report: ImportReport) -> bool:
        saved = len(store.recent())
        seen.append((report.total, report.seen, saved))
        return saved < stops_at

    with closing(store.database.connect()) as connection:
        report = import_chats(connection, path, progress)
    imported = min(stops_at, 5)
    assert seen == [(5, n, n) for n in range(1, imported + 1)] + [(5, imported, imported)]
    assert (report.chats, report.messages) == (imported, 4 * imported)
