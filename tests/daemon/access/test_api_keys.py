"""API keys: storage, expiry, and authentication of requests."""

from __future__ import annotations

import asyncio
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from ingle.daemon.access.api_keys import PREFIX, KeyFailure, KeyRing, KeyStore
from ingle.daemon.access.auth import RequestGate
from ingle.daemon.http.bodies import OPENAI
from ingle.daemon.http.http_protocol import CONNECTION
from ingle.daemon.http.route_access import LISTS
from ingle.daemon.http.route_spec import RouteIndex, RouteSpec
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.daemon.transport.peer import PeerConnection

LISTED = "https://chat.example"


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "state/keys.json")


def test_key_has_256_bits_and_only_its_digest_is_stored(store: KeyStore) -> None:
    record, key = store.create("zed")
    assert key.startswith(PREFIX)
    assert len(key) == len(PREFIX) + 52  # 256 bits, five per character
    assert key[len(PREFIX) :].isalnum()
    content = store.path.read_text()
    assert key not in content
    assert key[len(PREFIX) :] not in content
    assert store.list() == [record]
    if sys.platform != "win32":
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_default_key_names(store: KeyStore) -> None:
    assert [store.create()[0].name for _ in range(2)] == ["key-1", "key-2"]
    store.revoke("key-1")
    assert store.create()[0].name == "key-1"


@pytest.mark.parametrize("name", ["a\nb", " a", "a" * 65, "ä", "-a", "a/b"])
def test_invalid_key_names_are_rejected(store: KeyStore, name: str) -> None:
    with pytest.raises(KeyFailure):
        store.create(name)
    assert store.list() == []


def test_names_are_unique_and_keys_are_revoked_by_name_or_id(store: KeyStore) -> None:
    first, _ = store.create("a")
    with pytest.raises(KeyFailure, match="already"):
        store.create("a")
    assert store.revoke(first.id) == first
    with pytest.raises(KeyFailure, match="There is no key 'a'"):
        store.revoke("a")


def test_concurrently_created_keys_are_all_stored(store: KeyStore) -> None:
    threads = [threading.Thread(target=store.create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.name for key in store.list()} == {f"key-{number}" for number in range(1, 9)}


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"keys": [{"id": 1}]}'])
def test_damaged_key_file_authenticates_nothing_and_is_reported(
    store: KeyStore, content: bytes
) -> None:
    _, key = store.create()
    store.path.write_bytes(content)
    with pytest.raises(KeyFailure, match="damaged"):
        store.list()
    assert KeyRing(store).find(key) is None


def test_key_ring_sees_created_and_revoked_keys(store: KeyStore) -> None:
    ring = KeyRing(store)
    assert ring.find("ingle-x") is None
    record, key = store.create()
    assert ring.find(key) == record
    assert ring.find(key[:-1]) is None
    assert ring.find(key + "a") is None
    assert ring.find(key + "a" * 10**6) is None
    store.revoke(record.name)
    assert ring.find(key) is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs file modes")
def test_key_file_writable_by_others_authenticates_nothing(store: KeyStore) -> None:
    _, key = store.create()
    store.path.chmod(0o660)
    assert KeyRing(store).find(key) is None


def test_last_use_is_stored_with_hourly_resolution(store: KeyStore) -> None:
    now = [7200.0 + 1800]
    ring = KeyRing(store, lambda: now[0])
    record, key = store.create(lifetime=10)
    other, _ = store.create()
    assert ring.find(key) == record
    ring.note_use(record)
    assert store.last_used() == {record.id: 7200}
    (store.path.parent / "keys-used.json").unlink()
    ring.note_use(record)
    assert store.last_used() == {}  # not written again within the same hour
    now[0] += 3600
    ring.note_use(record)
    ring.note_use(other)
    store.revoke(record.id)
    now[0] += 3600
    assert ring.find("ingle-") is None
    ring.note_use(other)
    assert store.last_used() == {other.id: 14400}


@dataclass
class GateHarness:
    """A gate with a configurable peer, counting admitted requests."""

    gate: RequestGate
    owner: int | None = 1000
    kind: Any = "tcp"
    admitted: int = 0

    async def request(
        self, method: str = "GET", path: str = "/v1/models", **headers: str
    ) -> httpx.Response:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            connection = PeerConnection(self.kind, self.owner, 80, lambda: None)
            scope["state"] = {CONNECTION: connection}
            await self.gate(scope, receive, send)

        transport = httpx.ASGITransport(app)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=names)


@pytest.fixture
async def harness(store: KeyStore) -> AsyncGenerator[GateHarness]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        harness.admitted += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    paths = find_paths({"INGLE_HOME": str(store.path.parents[1])})
    assert paths.keys == store.path
    gate = RequestGate(
        app,
        routes=RouteIndex([RouteSpec("GET", "/v1/models", access=LISTS, error_format=OPENAI)]),
        config=Config(paths=paths, allowed_origins=(LISTED,), max_body_bytes=1000),
        uid=lambda: 1000,
    )
    harness = GateHarness(gate)
    yield harness
    await asyncio.sleep(0)


KeyHeaders = Callable[[str], dict[str, str]]

KEY_HEADERS: list[KeyHeaders] = [
    lambda key: {"authorization": f"Bearer {key}"},
    lambda key: {"authorization": f"bearer  {key}"},
    lambda key: {"authorization": key},
    lambda key: {"x_api_key": key},
    lambda key: {"api_key": key},
    lambda key: {"authorization": "Bearer dummy", "x_api_key": key},
]


@pytest.mark.parametrize("key_headers", KEY_HEADERS)
@pytest.mark.parametrize("owner", [None, 1001])
async def test_valid_key_authenticates_a_peer_of_another_user(
    harness: GateHarness, store: KeyStore, key_headers: KeyHeaders, owner: int | None
) -> None:
    _, key = store.create()
    harness.owner = owner
    assert (await harness.request(**key_headers(key))).status_code == 200
    store.revoke("key-1")
    refused = await harness.request(**key_headers(key))
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert harness.admitted == 1


@pytest.mark.parametrize("word", ["", "x", "ollama", "sk-1234", "Bearer", "INGLE-x", "Basic aTpi"])
async def test_authorization_without_an_ingle_key_is_ignored(
    harness: GateHarness, word: str
) -> None:
    assert (await harness.request(authorization=word, x_api_key=word)).status_code == 200
    harness.owner = None
    refused = await harness.request(authorization=word)
    assert refused.status_code == 401
    assert "ingle key new" in refused.json()["error"]["message"]
    harness.owner = 1001
    assert (await harness.request(authorization=word)).status_code == 403
    assert harness.admitted == 1


@pytest.mark.parametrize("key_headers", KEY_HEADERS)
async def test_invalid_key_is_refused_even_from_the_owner(
    harness: GateHarness, store: KeyStore, key_headers: KeyHeaders
) -> None:
    _, key = store.create()
    for invalid in ("ingle-", "ingle-wrong", key.upper().replace("INGLE", "ingle"), key + " x"):
        assert (await harness.request(**key_headers(invalid))).status_code == 401
    assert harness.admitted == 0


async def test_valid_and_invalid_key_together_are_refused(
    harness: GateHarness, store: KeyStore
) -> None:
    _, key = store.create()
    answer = await harness.request(authorization=f"Bearer {key}", x_api_key="ingle-wrong")
    assert answer.status_code == 401


async def test_expired_key_is_refused(harness: GateHarness, store: KeyStore) -> None:
    record, key = store.create("old", lifetime=1)
    store.path.write_text(store.path.read_text().replace(str(record.expires), "1"))
    refused = await harness.request(authorization=f"Bearer {key}")
    assert refused.status_code == 401
    assert "The key 'old' has expired." in refused.json()["error"]["message"]


async def test_key_does_not_admit_another_user_over_the_unix_socket(
    harness: GateHarness, store: KeyStore
) -> None:
    _, key = store.create()
    harness.owner, harness.kind = 1001, "unix"
    assert (await harness.request(authorization=f"Bearer {key}")).status_code == 403


async def test_key_does_not_admit_an_unlisted_origin(harness: GateHarness, store: KeyStore) -> None:
    _, key = store.create()
    bearer = f"Bearer {key}"
    for owner in (None, 1000):
        harness.owner = owner
        for origin in ("https://evil.example", "null", f"{LISTED}.evil.example"):
            answer = await harness.request(authorization=bearer, origin=origin)
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "origin_not_allowed"
        assert (await harness.request(authorization=bearer, host="evil.example")).status_code == 403
    assert harness.admitted == 0
    assert (await harness.request(authorization=bearer, origin=LISTED)).status_code == 200


async def test_preflight_of_a_listed_origin_needs_no_key(harness: GateHarness) -> None:
    harness.owner = None
    preflight = {"access_control_request_method": "POST"}
    answer = await harness.request("OPTIONS", origin=LISTED, **preflight)
    assert answer.status_code == 204
    assert (
        await harness.request("OPTIONS", origin="https://evil.example", **preflight)
    ).status_code == 401
    assert (await harness.request("OPTIONS", **preflight)).status_code == 401
    assert (await harness.request("GET", origin=LISTED, **preflight)).status_code == 401
    assert harness.admitted == 0


async def test_daemon_accepts_the_keys_of_its_home(
    run_daemon: Callable[..., Any], ingle_home: Path
) -> None:
    async with run_daemon() as daemon:
        store = KeyStore(daemon.services.config.paths.keys)
        _, key = store.create()
        headers = {"x-api-key": key}
        assert (await daemon.tcp.get("/v1/models", headers=headers)).status_code == 200
        store.revoke("key-1")
        assert (await daemon.tcp.get("/v1/models", headers=headers)).status_code == 401
        assert (await daemon.tcp.get("/v1/models")).status_code == 200
