"""The support bundle contains diagnostics and no private data of the sender."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.daemon.doctor.redactor import Redactor
from ingle.daemon.main import main
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.tui.chats.chat import Chat
from ingle.tui.history.history_store import open_history

CANARY = "xylophone"
LOG_LINE = "2026-01-02 03:04:05,678 {level} ingle.daemon: {text}\n"


def plant_canaries(home: Path) -> None:
    """Write the canary to every place the bundle could read."""
    for name in ("config", "state", "models"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "config/config.toml").write_text(
        f'default_model = "{CANARY}-model"\nallowed_origins = ["http://{CANARY}.local"]\n'
        f'model_folders = ["/{CANARY}/models"]\nkeep_alive = "1h"\nlog_format = "json"\n'
        f'[aliases]\n"{CANARY}-alias" = "smollm2"\n'
    )
    (home / "config/policy.toml").write_text(f'words = ["{CANARY}word"]\n')
    (home / "state/keys.json").write_text(f'{{"keys": [], "{CANARY}": 1}}')
    folder = home / "models" / f"{CANARY}" / "1"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    manifest = Manifest(
        name=f"{CANARY}:1",
        file="model.gguf",
        size=4,
        sha256="0" * 64,
        licence="",
        description=CANARY,
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
    chat.settings.title = CANARY
    store.add_chat(chat)
    assert store.flush(10)
    store.close()
    log = LOG_LINE.format(
        level="WARNING", text=f"Model {CANARY}:1 failed: the file /home/{CANARY}/x is gone"
    )
    log += LOG_LINE.format(
        level="INFO", text=f"The name '{CANARY}' was asked for, as {CANARY}word was"
    )
    log += LOG_LINE.format(
        level="ERROR", text=f"It cannot reach https://{CANARY}.example.com/a?b={CANARY}"
    )
    log += LOG_LINE.format(level="INFO", text=f"Made for {CANARY}@example.com at 203.0.113.7")
    log += f"a stray print about {CANARY}\n  File '{CANARY}.py', line 1\n\x1b[31m{CANARY}\n"
    log += json.dumps({"level": "info", "logger": CANARY, "message": CANARY, "time": CANARY}) + "\n"
    log += json.dumps({"level": "info", "message": CANARY}) + "\n{" + CANARY + "\n"
    entry = {"time": "2026-01-02T03:04:05.678Z", "level": "info", "logger": "ingle.daemon"}
    log += json.dumps({**entry, "message": f"Model {CANARY}:1 is ready", "route": CANARY}) + "\n"
    (home / "state/ingle.log").write_text(log)
    (home / "state/ingle.1.log").write_text(LOG_LINE.format(level="INFO", text="Listening"))


@pytest.fixture
def home(tmp_path: Path, ingle_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose path, user, host name and working directory contain the canary too."""
    home = tmp_path / CANARY / "home"
    work = tmp_path / CANARY / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("INGLE_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / CANARY))
    monkeypatch.setenv("LOGNAME", f"{CANARY}-user")
    monkeypatch.setattr("platform.node", lambda: f"{CANARY}-host")
    monkeypatch.chdir(work)
    plant_canaries(home)
    return home


def test_bundle_contains_no_canary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bundle", "report.tar.gz"]) == 0
    output = capsys.readouterr().out
    assert "log.txt" in output
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
    assert [name for name, text in texts.items() if CANARY in text.lower()] == []
    assert CANARY.encode() not in path.read_bytes()

    settings = json.loads(texts["settings.json"])
    assert (settings["keep_alive"], settings["log_format"]) == (3600.0, "json")
    assert settings["default_model"] == "(set)"
    assert settings["aliases"] == "(a list of 1)"
    assert json.loads(texts["models.json"])[0]["name"] == "(one of your own)"
    assert "Listening" in texts["log.txt"], "the rotated log is included"
    assert "Model (model 1) failed: the file (path) is gone" in texts["log.txt"]
    assert "not written by ingle" in texts["log.txt"]
    assert json.loads(texts["versions.json"])["packages"]["ingle"]
    counts = {each["place"]: each["count"] for each in json.loads(texts["kept.json"])}
    assert counts["logs"] == 2


@pytest.mark.slow
def test_with_models_includes_model_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bundle", "-", "--with-models"]) == 0
    assert f"{CANARY}:1" in capsys.readouterr().out


@pytest.mark.slow
def test_existing_file_is_not_overwritten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").write_text("mine")
    assert main(["doctor", "--bundle", "mine"]) == 1
    assert Path("mine").read_text() == "mine"
    assert main(["doctor", "--bundle"]) == 0
    assert len(list(Path().glob("ingle-report-*.tar.gz"))) == 1


@pytest.mark.slow
def test_bundle_with_invalid_settings(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config/config.toml").write_text(f'keep_alive = "{CANARY}"')
    assert main(["doctor", "--bundle", "-"]) == 0
    assert CANARY not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        ("", ""),
        ("Listening on /run/user/7/ingle.sock and http://127.0.0.1:4645", "http://127.0.0.1:4645"),
        ("It is 'a b' there", "It is (quoted) there"),
        (r"C:\Users\x\y.gguf is gone", "(path) is gone"),
        ("the key sk-proj-" + "a1B2" * 12, "(private)"),
    ],
)
def test_redacted_text_is_replaced_by_a_marker(text: str, remaining: str) -> None:
    redacted = Redactor({"ab": "(too short to mean anything)"}).text(text)
    assert remaining in redacted
    assert "a1B2" not in redacted
    assert "/run" not in redacted


@pytest.mark.slow
def test_bundle_lists_the_versions_of_installed_engines(home: Path) -> None:
    packages = all_engine_packages()["llama.cpp-vulkan"]
    store = EngineStore(home / "engines")
    folder = store.begin(packages)
    metadata = folder / "llama_cpp_python-0.3.36.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: 0.3.36\n")
    store.commit(packages, folder)

    assert main(["doctor", "--bundle", "report.tar.gz"]) == 0
    with tarfile.open("report.tar.gz") as archive:
        file = archive.extractfile("ingle-report/versions.json")
        assert file is not None
        versions = json.load(file)
    assert versions["engines"] == {"llama.cpp-vulkan": "0.3.36"}
