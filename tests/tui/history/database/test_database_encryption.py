"""Encryption of the chats at rest: unlocking, conversion, concurrency, and interruption."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.history.database import database_encryption
from ingle.tui.history.database.history_errors import HistoryError, HistoryLocked, WrongPassphrase

if TYPE_CHECKING:
    from ..conftest import MakeStore, NewSavedChat, Problems, SavedChat

StateOf = Callable[[Chat | None], object]

pytestmark = pytest.mark.usefixtures("synced_renames")

PASSPHRASE = "it's a 'long' one"
needs_sqlcipher = pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)


def add_messages(saved_chat: SavedChat) -> None:
    for number in range(30):
        saved_chat.add_prompt(f"a secret xylophone {number}")
        saved_chat.answer("zither ", f"answer {number}")
    saved_chat.store.save_draft(saved_chat.chat.id, "dulcimer draft")


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_encrypted_chats_are_unreadable_and_complete(
    saved_chat: SavedChat,
    bytes_on_disk: Callable[[], bytes],
    make_store: MakeStore,
    state_of: StateOf,
) -> None:
    add_messages(saved_chat)
    store = saved_chat.store
    before = state_of(store.load(saved_chat.chat.id))
    assert b"xylophone" in bytes_on_disk()
    store.encrypt(PASSPHRASE)
    saved_chat.add_prompt("one more harmonica")
    assert store.flush()
    assert [hit.snippet.text for hit in store.search("harmonica")] == ["one more harmonica"]
    read = store.load(saved_chat.chat.id)  # not from the plain file that was open before
    assert read is not None
    assert read.path[-1].content == "one more harmonica"
    store.close()
    for word in (b"xylo", b"zither", b"dulcimer", b"harmonica", b"SQLite", b"CREATE TABLE"):
        assert word not in bytes_on_disk()
    assert [path.name for path in store.database.folder.glob("history.db*")] == []

    again = make_store()
    assert again.database.is_locked
    with pytest.raises(HistoryLocked):
        again.load(saved_chat.chat.id)
    with pytest.raises(WrongPassphrase):
        again.unlock("it's a wrong one")
    again.unlock(PASSPHRASE)
    loaded = again.load(saved_chat.chat.id)
    assert loaded is not None
    assert loaded.path[-1].content == "one more harmonica"
    assert state_of(loaded) != before
    assert len(again.search("xylophone 7")) >= 1
    assert again.draft(saved_chat.chat.id) == "dulcimer draft"


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_plain_file_that_a_crash_left_beside_the_encrypted_one_is_wiped(
    saved_chat: SavedChat, folder: Path, make_store: MakeStore
) -> None:
    saved_chat.add_prompt("xylophone")
    assert saved_chat.store.flush()
    left = (folder / "history.db").read_bytes()
    saved_chat.store.encrypt(PASSPHRASE)
    saved_chat.add_prompt("marimba")
    assert saved_chat.store.close()
    (folder / "history.db").write_bytes(left)
    store = make_store()
    store.unlock(PASSPHRASE)
    assert [summary.messages for summary in store.recent()] == [2]
    assert not (folder / "history.db").exists()


def test_wiped_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    content = b"xylophone" * 300_000
    path.write_bytes(content)
    with path.open("rb") as file:
        database_encryption.wipe_file(path)
        assert not path.exists()
        assert file.read() == bytes(len(content))


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_messages_before_unlocking_are_held_in_memory(
    saved_chat: SavedChat, make_store: MakeStore, new_saved_chat: NewSavedChat, problems: Problems
) -> None:
    add_messages(saved_chat)
    saved_chat.store.encrypt(PASSPHRASE)
    saved_chat.store.close()
    store = make_store()
    early = new_saved_chat(store)
    early.add_prompt("before the passphrase")
    early.answer("still ", "in memory")
    assert not store.flush(0.2)
    store.unlock(PASSPHRASE)
    assert store.flush(300)
    loaded = store.load(early.chat.id)
    assert loaded is not None
    assert [m.content for m in loaded.path] == ["before the passphrase", "still in memory"]
    assert len(store.recent()) == 2
    assert problems == []


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_decrypting_restores_the_chats(
    saved_chat: SavedChat,
    bytes_on_disk: Callable[[], bytes],
    make_store: MakeStore,
    state_of: StateOf,
) -> None:
    add_messages(saved_chat)
    before = state_of(saved_chat.store.load(saved_chat.chat.id))
    saved_chat.store.encrypt(PASSPHRASE)
    saved_chat.store.decrypt()
    saved_chat.store.close()
    assert b"xylophone" in bytes_on_disk()
    store = make_store()
    assert not store.database.is_encrypted
    assert state_of(store.load(saved_chat.chat.id)) == before


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_encryption_is_refused_while_another_program_writes(
    saved_chat: SavedChat, folder: Path
) -> None:
    add_messages(saved_chat)
    saved_chat.store.flush()
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
            saved_chat.store.encrypt(PASSPHRASE)
        other.kill()
    saved_chat.add_prompt("still kept")
    assert saved_chat.store.flush()
    saved_chat.store.encrypt(PASSPHRASE)


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_encryption_is_refused_while_another_program_reads(
    saved_chat: SavedChat, make_store: MakeStore
) -> None:
    add_messages(saved_chat)
    assert saved_chat.store.flush()
    reader = make_store()
    assert reader.recent()
    with pytest.raises(HistoryError, match="Another ingle"):
        saved_chat.store.encrypt(PASSPHRASE)
    reader.close()
    saved_chat.store.encrypt(PASSPHRASE)
    assert saved_chat.store.recent()
    later = make_store()
    later.unlock(PASSPHRASE)
    with pytest.raises(HistoryError, match="Another ingle"):
        saved_chat.store.decrypt()


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_program_opening_during_encryption_waits_and_loses_nothing(
    saved_chat: SavedChat,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_messages(saved_chat)
    assert saved_chat.store.flush()
    other = new_saved_chat(make_store())
    replaced = database_encryption._put_in_place  # pyright: ignore[reportPrivateUsage]

    def prompt_meanwhile(part: Path, target: Path) -> None:
        # The copy is complete: later writes to the old file would be lost with it.
        other.add_prompt("in that very instant")
        assert not other.store.flush(0.5)
        replaced(part, target)

    monkeypatch.setattr(database_encryption, "_put_in_place", prompt_meanwhile)
    saved_chat.store.encrypt(PASSPHRASE)
    deadline = time.monotonic() + 120
    while not problems and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "encrypted the chats" in problems[0]
    other.store.unlock(PASSPHRASE)
    assert other.store.flush(300)
    loaded = saved_chat.store.load(other.chat.id)
    assert loaded is not None
    assert [m.content for m in loaded.path] == ["in that very instant"]


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_chats_decrypted_by_another_program_are_reopened(
    saved_chat: SavedChat, make_store: MakeStore, state_of: StateOf
) -> None:
    add_messages(saved_chat)
    saved_chat.store.encrypt(PASSPHRASE)
    before = state_of(saved_chat.store.load(saved_chat.chat.id))
    saved_chat.store.close()
    other = make_store()
    other.unlock(PASSPHRASE)
    other.decrypt()
    other.close()
    assert state_of(saved_chat.store.load(saved_chat.chat.id)) == before
    assert saved_chat.store.database.path.name == "history.db"


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
    saved_chat: SavedChat, folder: Path, make_store: MakeStore, state_of: StateOf, delay: float
) -> None:
    for _ in range(10):
        add_messages(saved_chat)
    before = state_of(saved_chat.store.load(saved_chat.chat.id))
    saved_chat.store.close()
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
    assert state_of(store.load(saved_chat.chat.id)) == before
    if not store.database.is_encrypted:
        store.encrypt(PASSPHRASE)
    assert state_of(store.load(saved_chat.chat.id)) == before
    store.close()
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"xylophone" not in content


class Keyring(ModuleType):
    """A stand-in for the system's keyring, which may refuse."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.refuses = False

    def get_password(self, service: str, name: str) -> str | None:
        if self.refuses:
            raise RuntimeError("it is locked")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        if self.refuses:
            raise RuntimeError("it is locked")
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@needs_sqlcipher
@pytest.mark.usefixtures("quick_keys")
def test_keyring_unlocks_the_chats_until_it_forgets(
    saved_chat: SavedChat, folder: Path, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_chat.add_prompt("hello")
    monkeypatch.setitem(sys.modules, "keyring", keyring := Keyring())
    saved_chat.store.remember(True)
    assert keyring.kept == {}, "chats without a passphrase"
    saved_chat.store.encrypt(PASSPHRASE)
    keyring.refuses = True
    with pytest.raises(HistoryError, match="it is locked"):
        saved_chat.store.remember(True)
    assert not make_store().unlock_with_keyring()
    keyring.refuses = False
    saved_chat.store.remember(True)
    assert keyring.kept == {("ingle chats", str(folder)): PASSPHRASE}
    other = make_store()
    assert other.unlock_with_keyring()
    assert [summary.title for summary in other.recent()] == ["hello"]
    keyring.kept["ingle chats", str(folder)] = "an outdated one"
    assert not make_store().unlock_with_keyring()
    other.remember(False)
    assert keyring.kept == {}
    assert not make_store().unlock_with_keyring()
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert not make_store().unlock_with_keyring()
    with pytest.raises(HistoryError, match="not installed"):
        other.remember(True)


def test_missing_sqlcipher_is_reported_with_a_hint(
    saved_chat: SavedChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_chat.add_prompt("hello")
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    with pytest.raises(HistoryError) as caught:
        saved_chat.store.encrypt(PASSPHRASE)
    assert "ingle[encryption]" in (caught.value.hint or "")
    assert len(saved_chat.store.recent()) == 1


def test_short_passphrases_are_rejected() -> None:
    assert "8 characters" in (database_encryption.passphrase_problem("seven77") or "")
    assert database_encryption.passphrase_problem("eight888") is None
