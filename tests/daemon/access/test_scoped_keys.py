"""Scopes, model limits, rates and concurrency limits of API keys in every protocol."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from ingle.daemon.access.api_keys import KeyFailure, KeyLimitation, KeyRing, KeyStore, RequestRate
from ingle.daemon.access.permission import Permission
from ingle.daemon.access.rate_limit import KeyLimits, RateLimited, TokenBucket
from ingle.daemon.http.route_access import ANY, Scope
from ingle.daemon.server.route_table import route_table

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

MESSAGES = [{"role": "user", "content": "Hi"}]
INFERENCE_REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 4},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/v1/responses": {"input": "Hi"},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/v1/embeddings": {"input": "Hi"},
    "/v1/rerank": {"query": "Hi", "documents": ["Ho"]},
    "/completion": {"prompt": "Hi"},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
    "/tokenize": {"content": "Hi"},
    "/detokenize": {"tokens": [1]},
    "/apply-template": {"messages": MESSAGES},
    "/embedding": {"content": "Hi"},
    "/api/chat": {"messages": MESSAGES, "stream": False},
    "/api/generate": {"prompt": "Hi", "stream": False},
    "/api/embed": {"input": "Hi"},
    "/api/embeddings": {"prompt": "Hi"},
    "/api/v0/chat/completions": {"messages": MESSAGES},
    "/api/v1/chat": {"input": "Hi"},
    "/ingle/v1/generations": {"messages": MESSAGES},
    "/ingle/v1/tokens": {"messages": MESSAGES},
}
"""A small request for each endpoint that names a model in its body."""

MODEL_REQUESTS = {
    "/models/load": {},
    "/models/unload": {},
    "/ingle/v1/load": {},
    "/ingle/v1/unload": {},
    "/ingle/v1/pull": {},
    "/ingle/v1/pull/cancel": {},
    "/api/pull": {"stream": False},
    "/api/v1/models/load": {},
    "/api/v1/models/download": {},
}


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon() as running:
        yield running


def new_key(daemon: RunningDaemon, *scopes: Scope, **limits: Any) -> dict[str, str]:
    """The authorization header of a new key with these scopes and limits."""
    limitation = KeyLimitation(scopes=scopes or tuple(Scope), **limits)
    _, key = KeyStore(daemon.services.config.paths.keys).create(limitation=limitation)
    return {"authorization": f"Bearer {key}"}


def code_of(answer: httpx.Response) -> str:
    """The error code of a response in any protocol."""
    found = re.search(r'"code":\s*"([a-z_]+)"', answer.text)
    return found[1] if found else ""


@pytest.mark.slow
async def test_model_limited_key_is_refused_for_other_models(daemon: RunningDaemon) -> None:
    key = new_key(daemon, models=("other*",))
    for path, body in {**INFERENCE_REQUESTS, **MODEL_REQUESTS}.items():
        answer = await daemon.tcp.post(path, json={**body, "model": "echo:1"}, headers=key)
        assert answer.status_code == 403, (path, answer.text)
        assert "'other*'" in answer.text, path
    answer = await daemon.tcp.request(
        "DELETE", "/api/delete", json={"model": "echo:1"}, headers=key
    )
    assert answer.status_code == 403
    for path in ("/ingle/v1/models/echo:1", "/ingle/v1/models/echo:1?dry_run=true"):
        assert (await daemon.tcp.delete(path, headers=key)).status_code == 403
    for path in ("/v1/models/echo:1", "/ingle/v1/models/echo:1", "/health/ready?model=echo:1"):
        assert (await daemon.tcp.get(path, headers=key)).status_code == 403, path
    assert daemon.services.manager.loaded() == []
    assert [model.name for model in daemon.services.store.list()] == ["echo:1"]


async def test_model_limited_key_accepts_aliases_of_its_model(run_daemon: DaemonFactory) -> None:
    async with run_daemon(aliases=(("gpt-4o", "echo:1"),)) as daemon:
        key = new_key(daemon, Scope.INFERENCE, models=("ECHO:*",))
        for name in ("echo:1", "gpt-4o"):
            body = {**INFERENCE_REQUESTS["/v1/chat/completions"], "model": name}
            answer = await daemon.tcp.post("/v1/chat/completions", json=body, headers=key)
            assert answer.status_code == 200, answer.text
        # An alias whose name matches but whose target does not is refused.
        other = new_key(daemon, Scope.INFERENCE, models=("gpt-*",))
        answer = await daemon.tcp.post("/v1/chat/completions", json=body, headers=other)
        assert answer.status_code == 403


async def test_model_lists_contain_only_models_of_the_key(daemon: RunningDaemon) -> None:
    for path in ("/v1/models", "/models", "/api/tags", "/api/v0/models", "/api/v1/models"):
        for pattern, listed in (("echo*", True), ("other", False)):
            key = new_key(daemon, Scope.INFERENCE, models=(pattern,))
            answer = await daemon.tcp.get(path, headers=key)
            assert answer.status_code == 200, path
            assert ("echo:1" in answer.text) is listed, path


async def test_endpoints_are_refused_without_their_scope(daemon: RunningDaemon) -> None:
    """A request without the scope is refused before its body is read, so no body is sent."""
    keys = {scope: new_key(daemon, scope) for scope in Scope}
    for spec in route_table(daemon.services):
        path = re.sub(r"\{[^}]*\}", "x", spec.path)
        needs = spec.access.scopes
        for scope, key in keys.items():
            allowed = scope in needs or scope is Scope.ADMIN
            if allowed:
                continue  # allowed endpoints are tested elsewhere, and some of them stop the daemon
            answer = await daemon.tcp.request(spec.method, path, headers=key)
            assert answer.status_code == 403, (spec.method, path, scope)
            if spec.method != "HEAD":
                assert f"it is for '{scope}'" in answer.text
    assert daemon.shutdowns == []


async def test_endpoints_have_the_expected_scopes(daemon: RunningDaemon) -> None:
    """All endpoints; those without a declared scope are for admins."""
    found: dict[Scope, set[str]] = {scope: set() for scope in Scope}
    for spec in route_table(daemon.services):
        if spec.access != ANY:
            for scope in spec.access.scopes:
                found[scope].add(f"{spec.method} {spec.path}")
    assert "POST /ingle/v1/shutdown" in found[Scope.ADMIN]
    inference_routes = {f"POST {path}" for path in INFERENCE_REQUESTS}
    assert inference_routes <= found[Scope.INFERENCE]
    assert {f"POST {path}" for path in MODEL_REQUESTS} <= found[Scope.MODELS]
    for scope in (Scope.INFERENCE, Scope.READ):
        # Neither scope changes the set of models.
        assert not {route for route in found[scope] if "load" in route or "pull" in route}
        assert not {route for route in found[scope] if route.startswith("DELETE /ingle")}
    reading = {route for route in found[Scope.READ] if not route.startswith("GET")}
    assert reading == {"POST /api/show"}


async def test_refused_endpoint_does_not_read_the_body(
    daemon: RunningDaemon, raw: Callable[..., Any]
) -> None:
    key = new_key(daemon, Scope.READ)["authorization"]
    for head in (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n"
        "Content-Length: 1000\r\n\r\n",
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n"
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    ):
        answer = await raw(daemon.port, head.encode())
        assert answer.startswith(b"HTTP/1.1 403")


async def test_limited_key_is_refused_where_no_model_is_named(daemon: RunningDaemon) -> None:
    for limits in ({"models": ("echo*",)}, {"route": "local"}):
        key = new_key(daemon, **limits)
        for path in ("/v1/batches", "/api/copy", "/api/create", "/ingle/v1/models"):
            answer = await daemon.tcp.post(path, json={}, headers=key)
            assert answer.status_code == 403, path
        answer = await daemon.tcp.post("/ingle/v1/unload", headers=key)
        assert (answer.status_code, code_of(answer)) == (403, "key_not_allowed")
        body = {"model": "echo:1", "draft": "/etc/passwd"}
        answer = await daemon.tcp.post("/ingle/v1/load", json=body, headers=key)
        assert answer.status_code == 403


async def test_pipelined_requests_are_authorized_separately(
    daemon: RunningDaemon,
) -> None:
    key = new_key(daemon, models=("echo*",))["authorization"]
    for first, second, expected in (
        (f"Authorization: {key}\r\n", "", [b"200", b"200"]),
        ("", f"Authorization: {key}\r\n", [b"200", b"403"]),
    ):
        # The first request is slow, so the second is queued on the connection and starts within its
        # task.
        body = b'{"model":"echo:1","prompt":"Hi"}'
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{first}"
        unload = f"POST /ingle/v1/unload HTTP/1.1\r\nHost: localhost\r\n{second}"
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.write(f"{unload}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == expected


async def test_key_is_rate_limited(daemon: RunningDaemon) -> None:
    key = new_key(daemon, rate=RequestRate(2, 3600))
    answers = [await daemon.tcp.get("/v1/models", headers=key) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after"]) <= 1800
    assert code_of(answers[2]) == "rate_limited"
    assert (
        await daemon.tcp.get("/v1/models")
    ).status_code == 200  # the owner's own requests are not limited


async def test_key_has_a_concurrency_limit(run_daemon: DaemonFactory) -> None:
    script = {"reply": "x" * 400, "step_seconds": 0.01}
    async with run_daemon(key_requests=1, script=script) as daemon:
        key = new_key(daemon)
        body = {"model": "echo:1", "prompt": "Hi", "stream": True, "max_tokens": 400}
        async with daemon.tcp.stream("POST", "/v1/completions", json=body, headers=key) as answer:
            await anext(answer.aiter_bytes())
            refused = await daemon.tcp.get("/v1/models", headers=key)
            assert refused.status_code == 429
        await daemon.until(lambda: not daemon.server.server_state.tasks)
        assert (await daemon.tcp.get("/v1/models", headers=key)).status_code == 200


def test_token_bucket_refills_over_time() -> None:
    bucket = TokenBucket(RequestRate(60, 60), now=100.0)
    assert [bucket.take(100.0) for _ in range(60)] == [0.0] * 60
    assert bucket.take(100.0) == pytest.approx(1.0)
    assert bucket.take(101.5) == 0.0
    assert bucket.take(101.5) == pytest.approx(0.5)
    assert [bucket.take(10_000.0) for _ in range(60)] == [0.0] * 60
    assert bucket.take(10_000.0) > 0


@pytest.mark.parametrize("text", ["x", "60", "0/m", "-1/m", "60/w", "60/m/m", "1e3/s", "٣/m"])
def test_invalid_rates_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        RequestRate.parse(text)


def test_model_patterns_support_stars_but_not_brackets() -> None:
    permission = Permission(key="k", models=("smollm2:*", "/srv/[a]/*.gguf"))
    assert permission.allows_model("SmolLM2:135m")
    assert permission.allows_model("/srv/[a]/x.gguf")
    for name in ("smollm2", "xsmollm2:135m", "/srv/a/x.gguf", ""):
        assert not permission.allows_model(name)


def test_local_key_does_not_allow_remote_models() -> None:
    assert not Permission(key="k", cloud=False).allows_remote("acme/big")
    assert Permission(key="k").allows_remote("acme/big")
    assert Permission(key="k", models=("acme/*",)).allows_remote("acme/big")
    assert not Permission(key="k", models=("echo*",)).allows_remote("acme/big")


def test_key_file_without_scopes_is_still_valid(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json")
    digest = hashlib.sha256(b"ingle-old").hexdigest()
    store.path.write_text(
        f'{{"version": 1, "keys": [{{"id": "1", "name": "old", "digest": "{digest}", '
        '"created": 1, "expires": null}]}'
    )
    store.path.chmod(0o600)
    record = KeyRing(store).find("ingle-old")
    assert record is not None
    assert record.permission() == Permission(key="old")


def test_rotation_keeps_limits_and_invalidates_the_old_key(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json")
    limitation = KeyLimitation(
        scopes=(Scope.READ,), models=("a",), route="local", rate=RequestRate(1, 60)
    )
    before, old = store.create("zed", lifetime=1000, limitation=limitation)
    after, new = store.rotate("zed")
    ring = KeyRing(store)
    assert ring.find(old) is None
    assert ring.find(new) == after
    assert after.permission() == before.permission()
    assert (after.id, after.expires, after.rate) == (before.id, before.expires, before.rate)
    with pytest.raises(KeyFailure, match="There is no key 'none'"):
        store.rotate("none")
    store.path.write_text(store.path.read_text().replace(str(after.expires), "1"))
    with pytest.raises(KeyFailure, match="has expired"):
        store.rotate("zed")
    assert store.rotate("zed", lifetime=50)[0].expires != 1


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1/s", RequestRate(1, 1)),
        (" 60/M ", RequestRate(60, 60)),
        ("7/h", RequestRate(7, 3600)),
        ("1000000/d", RequestRate(10**6, 86400)),
    ],
)
def test_rate_is_written_as_it_is_read(text: str, rate: RequestRate) -> None:
    assert RequestRate.parse(text) == rate
    assert rate.short == text.strip().lower()
    assert RequestRate(2, 7).short == "2/7s"
    with pytest.raises(ValueError, match="1000001/d"):
        RequestRate.parse("1000001/d")


def test_key_expires_in_its_last_second(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json")
    record, key = store.create("zed", lifetime=0.1)
    assert record.expires == record.created + 1, "a second at least"
    now = [record.created + 0.9]
    ring = KeyRing(store, lambda: now[0])
    assert ring.find(key) == record
    assert not ring.expired(record)
    now[0] = record.created + 1
    assert ring.expired(record)
    assert not store.create()[0].expired(2.0**40)
    assert store.rotate("zed", lifetime=2.6)[0].expires == int(time.time()) + 3


def test_limits_count_what_runs_and_say_when_to_retry(tmp_path: Path) -> None:
    record, _ = KeyStore(tmp_path / "keys.json").create("zed")
    other = msgspec.structs.replace(record, id="other", rate=RequestRate(1, 10))
    now = [0.0]
    limits = KeyLimits(rate=RequestRate(2, 3), at_once=2, now=lambda: now[0])
    with limits.request(record):
        with limits.request(record), pytest.raises(RateLimited, match="has 2 requests running"):
            limits.request(record).__enter__()
        with pytest.raises(RateLimited, match="may ask 2 times in 3 s") as caught:
            limits.request(record).__enter__()
        assert caught.value.headers == {"retry-after": "2"}
        assert caught.value.hint == "Try again in 2 s."
    with limits.request(other), pytest.raises(RateLimited, match="may ask 1 times in 10 s"):
        limits.request(other).__enter__()
    now[0] = 1.5
    with limits.request(record), pytest.raises(RateLimited):
        limits.request(record).__enter__()
    free = KeyLimits()
    with free.request(record), free.request(record), free.request(record):
        pass
    assert not free._uses, "no key is remembered for ever"  # pyright: ignore[reportPrivateUsage]
