"""A report for an issue has what helps, and not one word of its sender's."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ingle.daemon.doctor.redactor import Redactor
from ingle.daemon.main import main
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.tui.chats.chat import Chat
from ingle.tui.history.history_store import open_history

C = "xylophone"
OURS = "2026-01-02 03:04:05,678 {level} ingle.daemon: {text}\n"


def plant(home: Path) -> None:
    """The canary at every place that a report could read."""
    for name in ("config", "state", "models"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "config/config.toml").write_text(
        f'default_model = "{C}-model"\nallowed_origins = ["http://{C}.local"]\n'
        f'model_folders = ["/{C}/models"]\nkeep_alive = "1h"\nlog_format = "json"\n'
        f'[aliases]\n"{C}-alias" = "smollm2"\n'
    )
    (home / "config/policy.toml").write_text(f'words = ["{C}word"]\n')
    (home / "state/keys.json").write_text(f'{{"keys": [], "{C}": 1}}')
    folder = home / "models" / f"{C}" / "1"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    manifest = Manifest(
        name=f"{C}:1",
        file="model.gguf",
        size=4,
        sha256="0" * 64,
        licence="",
        description=C,
        parameters=1,
        quantization="Q8_0",
        architecture="llama",
        context=4096,
        chat=True,
        sampling={},
        source="test",
    )
    write_manifest(folder, manifest)
    store = open_history(home / "chats", lambda trouble: pytest.fail(trouble))
    chat = Chat()
    chat.settings.title = C
    store.add_chat(chat)
    assert store.flush(10)
    store.close()
    log = OURS.format(level="WARNING", text=f"Model {C}:1 failed: the file /home/{C}/x is gone")
    log += OURS.format(level="INFO", text=f"The name '{C}' was asked for, as {C}word was")
    log += OURS.format(level="ERROR", text=f"It cannot reach https://{C}.example.com/a?b={C}")
    log += OURS.format(level="INFO", text=f"Made for {C}@example.com at 203.0.113.7")
    log += f"a stray print about {C}\n  File '{C}.py', line 1\n\x1b[31m{C}\n"
    log += json.dumps({"level": "info", "logger": C, "message": C, "time": C}) + "\n"
    log += json.dumps({"level": "info", "message": C}) + "\n{" + C + "\n"
    entry = {"time": "2026-01-02T03:04:05.678Z", "level": "info", "logger": "ingle.daemon"}
    log += json.dumps({**entry, "message": f"Model {C}:1 is ready", "route": C}) + "\n"
    (home / "state/ingle.log").write_text(log)
    (home / "state/ingle.1.log").write_text(OURS.format(level="INFO", text="Listening"))


@pytest.fixture
def home(tmp_path: Path, ingle_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose own path, user, machine and working folder are canaries too."""
    home = tmp_path / C / "home"
    work = tmp_path / C / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("INGLE_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / C))
    monkeypatch.setenv("LOGNAME", f"{C}-user")
    monkeypatch.setattr("platform.node", lambda: f"{C}-host")
    monkeypatch.chdir(work)
    plant(home)
    return home


def test_no_canary_is_in_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bundle", "report.tar.gz"]) == 0
    said = capsys.readouterr().out
    assert "log.txt" in said
    path = Path("report.tar.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        texts = {
            Path(member.name).name: file.read().decode()
            for member in members
            if (file := archive.extractfile(member)) is not None
        }
    assert {(member.uname, member.uid, member.mtime) for member in members} == {("", 0, 0)}
    assert [name for name, text in texts.items() if C in text.lower()] == []
    assert C.encode() not in path.read_bytes()

    settings = json.loads(texts["settings.json"])
    assert (settings["keep_alive"], settings["log_format"]) == (3600.0, "json")
    assert settings["default_model"] == "(set)"
    assert settings["aliases"] == "(a list of 1)"
    assert json.loads(texts["models.json"])[0]["name"] == "(one of your own)"
    assert "Listening" in texts["log.txt"], "the older file is read first"
    assert "Model (model 1) failed: the file (path) is gone" in texts["log.txt"]
    assert "not written by ingle" in texts["log.txt"]
    assert json.loads(texts["versions.json"])["packages"]["ingle"]
    kept = {each["place"]: each["count"] for each in json.loads(texts["kept.json"])}
    assert kept["logs"] == 2


def test_names_of_models_are_in_it_where_its_sender_wants_that(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--bundle", "-", "--with-models"]) == 0
    assert f"{C}:1" in capsys.readouterr().out


def test_a_file_that_exists_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").write_text("mine")
    assert main(["doctor", "--bundle", "mine"]) == 1
    assert Path("mine").read_text() == "mine"
    assert main(["doctor", "--bundle"]) == 0
    assert len(list(Path().glob("ingle-report-*.tar.gz"))) == 1


def test_settings_that_cannot_be_read_are_no_hindrance(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config/config.toml").write_text(f'keep_alive = "{C}"')
    assert main(["doctor", "--bundle", "-"]) == 0
    assert C not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("Listening on /run/user/7/ingle.sock and http://127.0.0.1:4645", "http://127.0.0.1:4645"),
        ("It is 'a b' there", "It is (quoted) there"),
        (r"C:\Users\x\y.gguf is gone", "(path) is gone"),
        ("the key sk-proj-" + "a1B2" * 12, "(private)"),
    ],
)
def test_what_is_taken_out_leaves_a_mark(text: str, left: str) -> None:
    redacted = Redactor({"ab": "(too short to mean anything)"}).text(text)
    assert left in redacted
    assert "a1B2" not in redacted
    assert "/run" not in redacted
