"""`ingle route`: creating, checking and explaining policies, and the routing state."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingle.daemon.main import main
from ingle.daemon.routing.policy.policy import Policy
from ingle.daemon.routing.policy.policy_file import load_policy
from tests.daemon.conftest import DaemonFactory

Run = Callable[..., Any]


@pytest.fixture
def home(ingle_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty temporary ingle home."""
    for name in [name for name in os.environ if name.startswith("INGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    return ingle_home


def test_new_policy_template_is_valid_and_equals_the_defaults(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", "new"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = path.read_text()
    assert load_policy(path) == Policy()
    assert main(["route", "check"]) == 0
    assert "is valid" in capsys.readouterr().out
    path.write_text("# mine")
    assert main(["route", "new"]) == 1
    assert "already exists" in capsys.readouterr().err
    assert path.read_text() == "# mine"
    # Every example in the template is valid.
    path.write_text("\n".join(_uncomment_examples(written)))
    assert main(["route", "check"]) == 0, capsys.readouterr()
    out = capsys.readouterr().out
    assert "work" in out
    assert "person is 'never', and would be 'ask' by default" in out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_new_policy_that_cannot_be_written_in_full_is_not_left_behind(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        assert main(["route", "new"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "policy.toml cannot be written: File too large." in capsys.readouterr().err
    assert list((home / "config").iterdir()) == []
    assert main(["route", "new"]) == 0


def test_new_policy_asks_for_own_words_in_a_terminal_only(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(text: str, arguments: tuple[str, ...] = (), terminal: bool = True) -> Policy:
        stdin = io.StringIO(text)
        monkeypatch.setattr(stdin, "isatty", lambda: terminal)
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        assert main(["route", "new", *arguments]) == 0
        path = Path(capsys.readouterr().out.strip())
        policy = load_policy(path)
        path.unlink()
        return policy

    said = 'Ruth Okafor,  Ruthie\n\nBright "Water" \\ Co\n\nRathmore Park, Ruthie\nProjekt Ärger\n'
    words = ("Ruth Okafor", "Ruthie", 'Bright "Water" \\ Co', "Rathmore Park", "Projekt Ärger")
    assert answer(said).words == words
    assert answer("Ruthie\n").words == ("Ruthie",)
    assert answer("\n" * 6) == Policy()
    assert answer(said, ("--yes",)) == Policy()
    assert answer(said, terminal=False) == Policy()


def _uncomment_examples(template: str) -> list[str]:
    """The lines of a template with every commented example enabled."""
    lines: list[str] = []
    for line in template.splitlines():
        bare = line.removeprefix("# ")
        example = line.startswith("# ") and (" = " in bare or bare.startswith("["))
        if line in ("words = []", "folders = []", "public_words = []"):
            continue
        lines.append(bare if example else line)
    return lines


def test_check_reports_the_line_of_a_policy_error(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('words = ["ab"]\n[classes]\nemial = "never"\n')
    assert main(["route", "check", str(path)]) == 1
    error = capsys.readouterr().err
    assert "line 3 (classes.emial)" in error
    assert "Did you mean 'email'?" in error
    assert main(["route", "check", str(tmp_path / "none.toml")]) == 1
    path.write_text('[classes]\ncard = "allow"\n')
    assert main(["route", "check", str(path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["valid"], output["loosened"]) == (True, ["card"])


def test_schema_is_valid_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "schema"]) == 0
    assert "person_in_context" in json.dumps(json.loads(capsys.readouterr().out))


async def test_explain_reports_verdict_and_rule_of_a_text(
    home: Path,
    run_daemon: DaemonFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(*arguments: str, status: int = 0) -> str:
        assert await asyncio.to_thread(main, ["route", *arguments]) == status
        captured = capsys.readouterr()
        return captured.out if status == 0 else captured.err

    monkeypatch.setenv("COLUMNS", "80")
    async with run_daemon():
        shown = await run("explain", "My card is", "4539 5787 6362 1486.")
        assert shown.startswith("local: it stays on this machine.")
        assert "card" in shown
        assert "rule: card=never" in shown
        clean = json.loads(await run("explain", "How do tides work?", "--json"))
        assert (clean["verdict"], clean["goes_to"]) == ("cloud", "local")
        assert "No provider is set up" in clean["reason"]
        path = tmp_path / "text"
        path.write_text("Is anna@sample.org a valid address?")
        output = json.loads(await run("explain", "--file", str(path), "--json"))
        assert output["verdict"] == "redact"
        piped = SimpleNamespace(buffer=io.BytesIO(path.read_bytes()), isatty=lambda: False)
        monkeypatch.setattr("sys.stdin", piped)
        assert json.loads(await run("explain", "-", "--json"))["verdict"] == "redact"
        path.write_bytes(b"\xff\xfe\x00")
        assert "not text in UTF-8" in await run("explain", "--file", str(path), status=1)
        assert "cannot be read" in await run("explain", "--file", str(tmp_path), status=1)
        assert "Give either" in await run("explain", status=2)
        state = await run()
        assert "Nothing leaves this machine" in state
        assert "auto" in state
        assert max(map(len, state.splitlines()[2:])) <= 80
        assert not json.loads(await run("--json"))["enabled"]
