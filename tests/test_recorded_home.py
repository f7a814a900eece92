"""A home written by an older version can still be read completely.

`recorded_home.tar.gz` is what ingle 0.1.0 (commit 8782d1c) left after a chat, a stored response, a
batch, an API key, a provider and one request to it, without the model's file, locks and logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingle.daemon.access.api_keys import KeyRing, KeyStore

RECORDED = Path(__file__).with_name("recorded_home.tar.gz")
KEY = "ingle-t2h5wty6vqiysz7whuea4ben4u6nayofgg2umrq57aymgstzkg7a"
RESPONSE = "resp_18066f43dd82d1be648229bec371c9aa0cad82eb4bfdeff4"
BATCH = "batch_efa8c830b888823d13ed115c"


class Home:
    """The recorded home, and the installed `ingle` on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with tarfile.open(RECORDED) as archive:
            archive.extractall(folder, filter="data")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)

    def ingle(self, *arguments: str) -> str:
        environ = {**os.environ, "INGLE_HOME": str(self.folder), "INGLE_IMPORT_MODELS": "false"}
        command = [sys.executable, "-P", "-m", "ingle.daemon.main", *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> httpx.Response:
        transport = httpx.HTTPTransport(uds=json.loads(self.ingle("ps", "--json"))["socket"])
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            response = client.get(path)
        assert response.status_code == 200, response.text
        return response


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("recorded"))
    home.ingle("route", "explain", "Hello")  # starts the daemon
    yield home
    home.ingle("stop")


def test_recorded_chat_can_be_exported(home: Home) -> None:
    (chat,) = json.loads(home.ingle("chats", "list", "--json"))["chats"]
    assert (chat["title"], chat["messages"]) == ("Sums", 4)
    exported = home.folder / "sums.md"
    home.ingle("chats", "export", chat["id"], "md", str(exported))
    assert "What is 2+2? Answer briefly." in exported.read_text()
    assert "The answer is 4." in exported.read_text()


def test_recorded_ledger_verifies(home: Home) -> None:
    ledger = json.loads(home.ingle("ledger", "--json"))
    (entry,) = ledger["entries"]
    assert (entry["provider"], entry["bytes_out"]) == ("rack", 365)
    home.ingle("ledger", "verify")


def test_recorded_response_is_found(home: Home) -> None:
    response = home.get(f"/v1/responses/{RESPONSE}").json()
    assert (response["id"], response["status"]) == (RESPONSE, "completed")


def test_recorded_batch_and_output_are_found(home: Home) -> None:
    batch = home.get(f"/v1/batches/{BATCH}").json()
    assert batch["status"] == "completed"
    output = home.get(f"/v1/files/{batch['output_file_id']}/content").text
    assert json.loads(output)["custom_id"] == "a"


def test_recorded_keys_and_providers_are_listed(home: Home) -> None:
    keys: list[dict[str, Any]] = json.loads(home.ingle("key", "list", "--json"))["keys"]
    assert [(key["name"], key["scopes"]) for key in keys] == [("editor", ["inference", "read"])]
    assert "rack" in home.ingle("provider", "list")
    home.ingle("route", "check")


def test_recorded_key_is_accepted(home: Home) -> None:
    found = KeyRing(KeyStore(home.folder / "state" / "keys.json")).find(KEY)
    assert found is not None
    assert found.name == "editor"
