"""Taint: a conversation with something sensitive keeps its class, as does text quoted from it."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ingle.daemon.routing.inspection.request_inspector import InspectedRequest
from ingle.daemon.routing.inspection.request_parts import parts_of
from ingle.daemon.routing.policy.conversation_taint import (
    KEPT_SECONDS,
    ConversationMarks,
    TaintStore,
    marks_of,
    message_chain,
    request_traces,
    text_traces,
)
from ingle.daemon.routing.policy.policy import Classified

pytestmark = pytest.mark.quick

SECRET = "The merger of Heron and Egret is signed on Friday, nobody may know."


def request(*texts: str, conversation: str = "") -> GenerateRequest:
    """A conversation whose first message is the user's."""
    roles = ("user", "assistant")
    messages = [ChatMessage(roles[n % 2], text) for n, text in enumerate(texts)]
    return GenerateRequest(id="r", messages=messages, conversation=conversation)


def traces(source: GenerateRequest) -> list[bytes]:
    return request_traces(source, parts_of(source))


def marks(
    source: GenerateRequest, *values: str, kind: FindingKind = FindingKind.PASSWORD
) -> list[bytes]:
    """The traces that are marked for findings of these values, or of one in no text."""
    found = [
        SensitiveFinding(
            kind, part.text.index(value), part.text.index(value) + len(value), value, part=number
        )
        for number, part in enumerate(parts_of(source))
        for value in values
        if value in part.text
    ] or [SensitiveFinding(FindingKind.UNINSPECTABLE, 0, 0, "")]
    inspected = InspectedRequest(source, tuple(parts_of(source)), tuple(found), b"")
    return marks_of(inspected, [Classified(one, Sensitivity.NEVER, one.kind) for one in found])


@pytest.fixture
def store(tmp_path: Path) -> TaintStore:
    return TaintStore(tmp_path / "routing" / "taint.db")


def test_taint_follows_the_conversation_id(store: TaintStore) -> None:
    store.mark(marks(request("a", conversation="c1")), Sensitivity.NEVER)
    assert store.strictest(traces(request("other", conversation="c1"))) is Sensitivity.NEVER
    assert store.strictest(traces(request("other", conversation="c2"))) is None


async def test_unreadable_marks_count_as_uninspectable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tainted = request("a")
    marks = ConversationMarks(TaintStore(tmp_path))  # a folder in place of the database
    inspected = InspectedRequest(tainted, tuple(parts_of(tainted)), (), b"")
    assert await marks.strictest([inspected]) is Sensitivity.UNINSPECTABLE
    assert "cannot be read" in caplog.text


def test_taint_follows_the_message_history(store: TaintStore) -> None:
    store.mark(marks(request("hi", "hello", "secret"), "secret"), Sensitivity.ASK)
    continuation = request("hi", "hello", "secret", "ok", "and now?")
    assert store.strictest(traces(continuation)) is Sensitivity.ASK
    # A conversation that only begins with the same messages is not tainted.
    assert store.strictest(traces(request("hi", "hello", "what else?"))) is None
    assert store.strictest(traces(request("hi"))) is None


def test_same_words_without_the_secret_are_not_tainted(store: TaintStore) -> None:
    question = "Which of these settings is the best one for a small team, and why?"
    harmless = request(question)
    (message,) = harmless.messages or []
    for tainted in (
        structs.replace(harmless, tools=[Tool("f", "Logs in with Hund3Katze.")]),
        structs.replace(harmless, stop=["Hund3Katze"]),
        structs.replace(harmless, messages=[structs.replace(message, name="Hund3Katze")]),
        structs.replace(
            harmless, messages=[ChatMessage("system", "The password is Hund3Katze."), message]
        ),
        structs.replace(
            harmless, messages=[message, ChatMessage("tool", "It is Hund3Katze.", tool_call_id="c")]
        ),
    ):
        store.mark(marks(tainted, "Hund3Katze"), Sensitivity.NEVER)
        assert store.strictest(traces(tainted)) is Sensitivity.NEVER
    store.mark(marks(harmless), Sensitivity.UNINSPECTABLE)  # such as a picture
    assert store.strictest(traces(harmless)) is None


def test_instructions_with_a_path_do_not_taint_what_follows_them(store: TaintStore) -> None:
    instructions = ChatMessage("system", "You work in /home/ruth/shop.")
    secret = "The password is Hund3Katze."
    tainted, other = (
        GenerateRequest(id="r", messages=[instructions, ChatMessage("user", text)])
        for text in (secret, "Sort the imports, please.")
    )
    parts = tuple(parts_of(tainted))
    path = SensitiveFinding(FindingKind.FILE_PATH, 12, 27, "/home/ruth/shop", part=0)
    word = SensitiveFinding(FindingKind.PASSWORD, 16, 26, "Hund3Katze", part=1)
    assert parts[1].text[16:26] == "Hund3Katze"
    classified = [
        Classified(path, Sensitivity.MASK, path.kind),
        Classified(word, Sensitivity.NEVER, word.kind),
    ]
    inspected = InspectedRequest(tainted, parts, (path, word), b"")
    store.mark(marks_of(inspected, classified), Sensitivity.NEVER)
    assert store.strictest(traces(tainted)) is Sensitivity.NEVER
    assert store.strictest(traces(other)) is None


def test_taint_follows_a_value_into_other_words(store: TaintStore) -> None:
    source = request("Mein Passwort lautet Hund3Katze, die PIN 4711.")
    store.mark(marks(source, "Hund3Katze", "4711"), Sensitivity.NEVER)
    for text in ("Is Hund3Katze strong?", 'x = "Hund3Katze"', "(Hund3Katze)", "pw=Hund3Katze!"):
        assert store.strictest(traces(request(text))) is Sensitivity.NEVER, text
    # Numbers and words occur by chance.
    for text in ("Is 4711 a prime number?", "Hund und Katze", "Was heisst Passwort?"):
        assert store.strictest(traces(request(text))) is None, text


def test_taint_follows_quoted_answers(store: TaintStore) -> None:
    answer = f"Here is what I know.\n  {SECRET}  \nAnything else?"
    store.mark(text_traces(answer), Sensitivity.NEVER)
    for quoting in (
        request("Give this a title", answer),
        request(f"Summarise:\n> x\n{SECRET}\nend"),
        GenerateRequest(id="r", prompt=answer),
        GenerateRequest(
            id="r",
            messages=[ChatMessage("assistant", "", tool_calls=[ToolCall("i", "f", SECRET)])],
        ),
    ):
        assert store.strictest(traces(quoting)) is Sensitivity.NEVER
    # Greetings are too common to be marked.
    store.mark(text_traces("Hello! How can I help?"), Sensitivity.NEVER)
    assert store.strictest(traces(request("hi", "Hello! How can I help?", "a"))) is None


def test_traces_ignore_reasoning_and_white_space() -> None:
    kept = GenerateRequest(id="r", messages=[ChatMessage("assistant", " a\n", reasoning="why")])
    returned = GenerateRequest(id="r", messages=[ChatMessage("assistant", "a")])
    assert message_chain(kept) == message_chain(returned)


def test_strictest_mark_is_kept(store: TaintStore) -> None:
    found = marks(request("a"), "a")
    store.mark(found, Sensitivity.NEVER)
    store.mark(found, Sensitivity.ASK)
    assert store.strictest(found) is Sensitivity.NEVER


def test_marks_persist_without_containing_text(tmp_path: Path, store: TaintStore) -> None:
    tainted = request(SECRET, conversation="my-conversation")
    store.mark(marks(tainted, SECRET), Sensitivity.NEVER)
    store.mark(text_traces(SECRET), Sensitivity.NEVER)
    folder = tmp_path / "routing"
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert b"merger" not in path.read_bytes()
        assert b"my-conversation" not in path.read_bytes()
    store.close()
    again = TaintStore(folder / "taint.db")
    assert again.strictest(traces(tainted)) is Sensitivity.NEVER
    # Without the key of this file, marks cannot be related to texts.
    other = TaintStore(tmp_path / "other.db")
    other.mark([b"x"], Sensitivity.ASK)
    rows = [
        {row[0] for row in sqlite3.connect(path).execute("SELECT trace FROM marks")}
        for path in (folder / "taint.db", tmp_path / "other.db")
    ]
    other.mark(text_traces(SECRET), Sensitivity.NEVER)
    assert not rows[0] & rows[1]


@pytest.mark.parametrize("private", [True, False])
def test_marks_only_become_stricter(store: TaintStore, private: bool) -> None:
    tainted = request("one", conversation="c1")
    for sensitivity in (Sensitivity.ASK, Sensitivity.NEVER, Sensitivity.REDACT):
        store.mark(marks(tainted), sensitivity, private=private)
    assert store.strictest(traces(tainted)) is Sensitivity.NEVER


def test_private_marks_are_only_in_memory(tmp_path: Path, store: TaintStore) -> None:
    found = marks(request("a", conversation="p"))
    store.mark(found, Sensitivity.NEVER, private=True)
    assert store.strictest(found) is Sensitivity.NEVER
    store.close()
    assert TaintStore(tmp_path / "routing" / "taint.db").strictest(found) is None


def test_marks_expire_and_are_limited_in_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    store = TaintStore(tmp_path / "taint.db", clock=lambda: now[0])
    store.mark([b"old"], Sensitivity.ASK)
    now[0] += KEPT_SECONDS + 1
    store.mark([b"new"], Sensitivity.ASK)
    assert store.strictest([b"old"]) is None
    assert store.strictest([b"new"]) is Sensitivity.ASK
    monkeypatch.setattr("ingle.daemon.routing.policy.conversation_taint.KEPT_MARKS", 100)
    for number in range(150):
        now[0] += 1
        store.mark([b"%d" % number], Sensitivity.ASK)
    assert store.strictest([b"149"]) is Sensitivity.ASK
    assert store.strictest([b"new"]) is None


def test_forget_erases_all_marks(tmp_path: Path, store: TaintStore) -> None:
    found = marks(request("a", conversation="p"))
    assert store.forget() == 0
    store.mark(found, Sensitivity.NEVER)
    assert store.forget() == len(found)
    assert store.strictest(found) is None


def test_damaged_database_and_symlink_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "taint.db"
    path.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        TaintStore(path).strictest([b"x"])
    target = tmp_path / "elsewhere"
    (tmp_path / "link.db").symlink_to(target)
    with pytest.raises(OSError, match="link"):
        TaintStore(tmp_path / "link.db").mark([b"x"], Sensitivity.ASK)
    assert not target.exists()


def test_store_is_thread_safe(store: TaintStore) -> None:
    def mark(start: int) -> None:
        for number in range(start, start + 20):
            store.mark([b"%d" % number], Sensitivity.ASK)

    threads = [threading.Thread(target=mark, args=(20 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.strictest([b"%d" % n]) for n in range(80))


@pytest.mark.parametrize("count", [0, 1, 2_000])
def test_any_number_of_traces_can_be_looked_up(store: TaintStore, count: int) -> None:
    all_traces = [b"%d" % n for n in range(count)]
    store.mark(all_traces[-1:], Sensitivity.REDACT)
    assert store.strictest(all_traces) is (Sensitivity.REDACT if count else None)
