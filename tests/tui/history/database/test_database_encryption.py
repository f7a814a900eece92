"""Encryption of the chats at rest: unlocking, conversion, concurrency, and interruption."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.history.database import database_encryption
from ingle.tui.history.database.history_errors import HistoryError, HistoryLocked, WrongPassphrase

if TYPE_CHECKING:
    from ..conftest import Keeper, MakeStore, NewKeeper, Troubles

StateOf = Callable[[Chat | None], object]

PASSPHRASE = "it's a 'long' one"
needs_sqlcipher = pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)


def add_messages(keeper: Keeper) -> None:
    for number in range(30):
        keeper.add_prompt(f"a secret xylophone {number}")
        keeper.answer("zither ", f"answer {number}")
    keeper.store.save_draft(keeper.chat.id, "dulcimer draft")


@needs_sqlcipher
def test_encrypted_chats_are_unreadable_and_complete(
    keeper: Keeper, bytes_on_disk: Callable[[], bytes], make_store: MakeStore, state_of: StateOf
) -> None:
    add_messages(keeper)
    store = keeper.store
    before = state_of(store.load(keeper.chat.id))
    assert b"xylophone" in bytes_on_disk()
    store.encrypt(PASSPHRASE)
    keeper.add_prompt("one more harmonica")
    assert store.flush()
    assert [hit.snippet.text for hit in store.search("harmonica")] == ["one more harmonica"]
    store.close()
    for word in (b"xylo", b"zither", b"dulcimer", b"harmonica", b"SQLite", b"CREATE TABLE"):
        assert word not in bytes_on_disk()
    assert [path.name for path in store.database.folder.glob("history.db*")] == []

    again = make_store()
    assert again.database.is_locked
    with pytest.raises(HistoryLocked):
        again.load(keeper.chat.id)
    with pytest.raises(WrongPassphrase):
        again.unlock("it's a wrong one")
    again.unlock(PASSPHRASE)
    loaded = again.load(keeper.chat.id)
    assert loaded is not None
    assert loaded.path[-1].content == "one more harmonica"
    assert state_of(loaded) != before
    assert len(again.search("xylophone 7")) >= 1
    assert again.draft(keeper.chat.id) == "dulcimer draft"


@needs_sqlcipher
def test_messages_before_unlocking_are_held_in_memory(
    keeper: Keeper, make_store: MakeStore, new_keeper: NewKeeper, troubles: Troubles
) -> None:
    add_messages(keeper)
    keeper.store.encrypt(PASSPHRASE)
    keeper.store.close()
    store = make_store()
    early = new_keeper(store)
    early.add_prompt("before the passphrase")
    early.answer("still ", "in memory")
    assert not store.flush(0.2)
    store.unlock(PASSPHRASE)
    assert store.flush(5)
    loaded = store.load(early.chat.id)
    assert loaded is not None
    assert [m.content for m in loaded.path] == ["before the passphrase", "still in memory"]
    assert len(store.recent()) == 2
    assert troubles == []


@needs_sqlcipher
def test_decrypting_restores_the_chats(
    keeper: Keeper, bytes_on_disk: Callable[[], bytes], make_store: MakeStore, state_of: StateOf
) -> None:
    add_messages(keeper)
    before = state_of(keeper.store.load(keeper.chat.id))
    keeper.store.encrypt(PASSPHRASE)
    keeper.store.decrypt()
    keeper.store.close()
    assert b"xylophone" in bytes_on_disk()
    store = make_store()
    assert not store.database.is_encrypted
    assert state_of(store.load(keeper.chat.id)) == before


@needs_sqlcipher
def test_encryption_is_refused_while_another_program_writes(keeper: Keeper, folder: Path) -> None:
    add_messages(keeper)
    keeper.store.flush()
    code = (
        "import sys; from pathlib import Path;"
        "from ingle.tui.history.history_store import open_history;"
        "store = open_history(Path(sys.argv[1]), print); store.save_draft('x', 'y');"
        "store.flush(); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(HistoryError, match="Another ingle"):
            keeper.store.encrypt(PASSPHRASE)
        other.kill()
    keeper.add_prompt("still kept")
    assert keeper.store.flush()
    keeper.store.encrypt(PASSPHRASE)


@needs_sqlcipher
def test_encryption_is_refused_while_another_program_reads(
    keeper: Keeper, make_store: MakeStore
) -> None:
    add_messages(keeper)
    assert keeper.store.flush()
    reader = make_store()
    assert reader.recent()
    with pytest.raises(HistoryError, match="Another ingle"):
        keeper.store.encrypt(PASSPHRASE)
    reader.close()
    keeper.store.encrypt(PASSPHRASE)
    assert keeper.store.recent()
    later = make_store()
    later.unlock(PASSPHRASE)
    with pytest.raises(HistoryError, match="Another ingle"):
        keeper.store.decrypt()


@pytest.mark.slow
@needs_sqlcipher
def test_program_opening_during_encryption_waits_and_loses_nothing(
    keeper: Keeper,
    make_store: MakeStore,
    new_keeper: NewKeeper,
    troubles: Troubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_messages(keeper)
    assert keeper.store.flush()
    other = new_keeper(make_store())
    replaced = database_encryption._put_in_place  # pyright: ignore[reportPrivateUsage]

    def prompt_meanwhile(part: Path, target: Path) -> None:
        # The copy is complete: later writes to the old file would be lost with it.
        other.add_prompt("in that very instant")
        assert not other.store.flush(0.5)
        replaced(part, target)

    monkeypatch.setattr(database_encryption, "_put_in_place", prompt_meanwhile)
    keeper.store.encrypt(PASSPHRASE)
    deadline = time.monotonic() + 10
    while not troubles and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "encrypted the chats" in troubles[0]
    other.store.unlock(PASSPHRASE)
    assert other.store.flush(5)
    loaded = keeper.store.load(other.chat.id)
    assert loaded is not None
    assert [m.content for m in loaded.path] == ["in that very instant"]


@needs_sqlcipher
def test_chats_decrypted_by_another_program_are_reopened(
    keeper: Keeper, make_store: MakeStore, state_of: StateOf
) -> None:
    add_messages(keeper)
    keeper.store.encrypt(PASSPHRASE)
    before = state_of(keeper.store.load(keeper.chat.id))
    keeper.store.close()
    other = make_store()
    other.unlock(PASSPHRASE)
    other.decrypt()
    other.close()
    assert state_of(keeper.store.load(keeper.chat.id)) == before
    assert keeper.store.database.path.name == "history.db"


CONVERT = """
import sys
from pathlib import Path
from ingle.tui.history.history_store import open_history

store = open_history(Path(sys.argv[1]), print)
store.recent()
print("begun", flush=True)
store.encrypt(sys.argv[2])
print("done", flush=True)
"""


@needs_sqlcipher
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    "delay",
    [
        0.0,
        0.15,
        *(pytest.param(delay, marks=pytest.mark.slow) for delay in (0.05, 0.25, 0.35, 0.5)),
    ],
)
def test_interrupted_conversion_loses_nothing(
    keeper: Keeper, folder: Path, make_store: MakeStore, state_of: StateOf, delay: float
) -> None:
    for _ in range(10):
        add_messages(keeper)
    before = state_of(keeper.store.load(keeper.chat.id))
    keeper.store.close()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", CONVERT, str(folder), PASSPHRASE], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        time.sleep(delay)
        child.kill()
    store = make_store()
    if store.database.is_encrypted:
        store.unlock(PASSPHRASE)
    assert state_of(store.load(keeper.chat.id)) == before
    if not store.database.is_encrypted:
        store.encrypt(PASSPHRASE)
    assert state_of(store.load(keeper.chat.id)) == before
    store.close()
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"xylophone" not in content


def test_missing_sqlcipher_is_reported_with_a_hint(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.add_prompt("hello")
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    with pytest.raises(HistoryError) as caught:
        keeper.store.encrypt(PASSPHRASE)
    assert "ingle[encryption]" in (caught.value.hint or "")
    assert len(keeper.store.recent()) == 1


def test_short_passphrases_are_rejected() -> None:
    assert "8 characters" in (database_encryption.passphrase_problem("seven77") or "")
    assert database_encryption.passphrase_problem("eight888") is None
