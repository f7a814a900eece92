"""`ingle key`: creating, listing and revoking API keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ingle.daemon.access.api_keys import KeyRing, KeyStore
from ingle.daemon.main import main
from ingle.daemon.settings.config import load_config


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyStore:
    """The key store of a temporary ingle home."""
    for name in [name for name in os.environ if name.startswith("INGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INGLE_HOME", str(tmp_path))
    return KeyStore(load_config(os.environ).paths.keys)


def test_new_key_is_the_only_line_on_stdout(
    store: KeyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "new", "zed"]) == 0
    captured = capsys.readouterr()
    key = captured.out.strip()
    assert "valid until it is revoked" in captured.err
    assert key not in captured.err
    record = KeyRing(store).find(key)
    assert record is not None
    assert (record.name, record.expires) == ("zed", None)


def test_json_output_of_new_list_and_revoke(
    store: KeyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "new", "--expires", "90d", "--json"]) == 0
    created = json.loads(capsys.readouterr().out)
    assert created["key"].startswith("ingle-")
    record = store.list()[0]
    assert record.expires == record.created + 90 * 86400
    assert main(["key", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["keys"]
    assert listed == [{name: value for name, value in created.items() if name != "key"}]
    assert main(["key", "revoke", created["id"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"revoked": listed}
    assert store.list() == []


def test_list_shows_names_and_expiry_but_no_keys(
    store: KeyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "list"]) == 0
    assert "There are no keys" in capsys.readouterr().err
    _, key = store.create("zed")
    store.create("brief", lifetime=1)
    store.path.write_text(store.path.read_text().replace(str(store.list()[1].expires), "1"))
    assert main(["key", "ls"]) == 0
    output = capsys.readouterr().out
    assert "zed" in output
    assert "(over)" in output
    assert key not in output


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["key"], 2, "A subcommand is missing"),
        (["key", "make"], 2, "There is no `ingle key make`."),
        (["key", "revoke"], 2, "missing"),
        (["key", "revoke", "none"], 1, "There is no key 'none'."),
        (["key", "new", "a/b"], 1, "cannot be a key's name"),
        (["key", "new", "--expires", "soon"], 2, "not a valid lifetime"),
        (["key", "new", "--expires", "0"], 2, "not a valid lifetime"),
    ],
)
def test_invalid_arguments_report_an_error(
    store: KeyStore,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    assert main(arguments) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert store.list() == []


def test_unwritable_config_folder_is_an_error(
    store: KeyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.path.parent.parent.mkdir(exist_ok=True)
    store.path.parent.write_text("a file is in the way")
    assert main(["key", "new"]) == 1
    assert "cannot be" in capsys.readouterr().err
