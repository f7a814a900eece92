"""The passphrase prompt of the plain chat."""

from __future__ import annotations

import getpass
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import HistoryStore, open_history
from ingle.tui.plain.passphrase_prompt import unlock

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)


@pytest.fixture
def locked(tmp_path: Path) -> HistoryStore:
    store = open_history(tmp_path / "chats", pytest.fail)
    chat = Chat(id="one")
    store.add_chat(chat)
    store.add_message("one", Message(role="user", content="hello"))
    store.encrypt("open sesame")
    store.close()
    return open_history(tmp_path / "chats", pytest.fail)


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Simulates a terminal where these passphrases are typed."""

    def types(*answers: str) -> None:
        waiting = list(answers)

        def answer(prompt: str) -> str:
            return waiting.pop(0)

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr(getpass, "getpass", answer)

    return types


def test_correct_passphrase_unlocks_the_chats(
    locked: HistoryStore, type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("wrong one", "open sesame")
    unlock(locked)
    assert [summary.title for summary in locked.recent()] == ["hello"]
    assert "does not open" in capsys.readouterr().err
    locked.close()


@pytest.mark.parametrize("answers", [("",), ("wrong one",) * 3])
def test_chats_that_stay_locked_are_reported(
    locked: HistoryStore,
    type_in: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    answers: tuple[str, ...],
) -> None:
    type_in(*answers)
    unlock(locked)
    assert locked.database.is_locked
    assert "is not kept" in capsys.readouterr().err


def test_no_passphrase_prompt_in_a_pipe(
    locked: HistoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    unlock(locked)
    assert "is not kept" in capsys.readouterr().err
