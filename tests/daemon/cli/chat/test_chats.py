"""`ingle chats`: list, search, export and import of stored chats."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ingle.daemon.main import main
from ingle.daemon.settings.paths import find_paths
from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary ingle home with two chats."""
    for name in [name for name in os.environ if name.startswith("INGLE_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("INGLE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    home.mkdir(mode=0o700)
    store = open_history(find_paths(os.environ).chats, pytest.fail)
    for name, text in (("aa11", "Why are there tides?"), ("bb22", "Where is \x1b[31mKyoto?")):
        store.add_chat(Chat(ChatSettings(folder="travel" if name == "bb22" else ""), id=name))
        store.add_message(name, Message(role="user", content=text))
    assert store.close()
    return home


def test_list_sanitizes_titles_and_honors_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chats"]) == 0
    out = capsys.readouterr().out
    assert "Why are there tides?" in out
    assert "travel" in out
    assert "\x1b" not in out
    assert main(["chats", "list", "--json", "--limit", "1"]) == 0
    listed = json.loads(capsys.readouterr().out)["chats"]
    assert [chat["id"] for chat in listed] == ["bb22"]


def test_search_finds_chats_by_text_and_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chats", "search", "tide"]) == 0
    assert "aa11" in capsys.readouterr().out
    assert main(["chats", "search", "kyoto", "folder:travel", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["chat"] for hit in hits] == ["bb22"]
    assert main(["chats", "search", "nothing"]) == 1
    assert "Nothing found." in capsys.readouterr().err


def test_importing_an_exported_chat_detects_the_duplicate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["chats", "export", "aa", "json"]) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written == tmp_path / "Why-are-there-tides.json"
    assert main(["chats", "import", str(written)]) == 0
    assert "here already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["export"], "Which chat?"),
        (["export", "zz"], "No chat begins with zz."),
        (["import"], "Which file?"),
        (["import", "nothing.json"], "No such file"),
    ],
)
def test_invalid_arguments_report_an_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["chats", *arguments]) == 1
    assert complaint in capsys.readouterr().err
