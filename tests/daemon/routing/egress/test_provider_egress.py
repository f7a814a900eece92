"""Provider egress: keys, prices, budgets and the ledger together."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import keyring
import keyring.backend
import keyring.core
import pytest
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.events import Event
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance, request_digest
from ingle.backends.remote.errors import NotCleared, RemoteForbidden
from ingle.backends.remote.receipt import TokenUsage
from ingle.daemon.routing.egress.provider_egress import ProviderEgress
from ingle.daemon.routing.ledger.ledger_verification import verify
from ingle.daemon.routing.providers import provider_keys
from ingle.daemon.routing.providers.provider_errors import (
    BudgetExceeded,
    LedgerUnwritable,
    NoKey,
    ProviderError,
    UnknownProvider,
)
from ingle.daemon.routing.providers.provider_keys import ProviderKeys
from ingle.daemon.routing.providers.provider_store import ProviderStore, read_provider
from ingle.daemon.routing.providers.token_prices import load_prices
from ingle.daemon.settings.config import Config, load_config

KEY = "sk-canary-5f1d77"
QUESTION = GenerateRequest(id="r", messages=[ChatMessage("user", "Why?")], max_tokens=10)
ANSWER = (
    b'data: {"choices":[{"delta":{"content":"So."},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the developer's own keyring."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    keyring.core.init_backend()


class Cloud:
    """A provider that gives every request the same answer, and counts requests and bytes."""

    def __init__(self) -> None:
        self.port = 0
        self.requests = 0
        self.bytes = 0
        self.gate: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        self.requests += 1
        self.bytes += len(head) + len(body)
        if self.gate is not None:
            await self.gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + ANSWER)
        await writer.drain()
        writer.close()


@pytest.fixture
async def cloud() -> AsyncGenerator[Cloud]:
    found = Cloud()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@pytest.fixture
def config() -> Config:
    return load_config(os.environ)


def make_egress(config: Config, cloud: Cloud, **fields: object) -> ProviderEgress:
    egress = ProviderEgress(config)
    table = {"kind": "openai", "base_url": f"http://127.0.0.1:{cloud.port}/v1", "retries": 0}
    egress.store.add(read_provider("acme", {**table, **fields}, "a test"))
    egress.keys.set("acme", KEY)
    return egress


def cleared(request: GenerateRequest = QUESTION, model: str = "m") -> Clearance:
    return Clearance(
        digest=request_digest(request),
        provider="acme",
        model=model,
        verdict="cloud",
        rule="t",
        conversation="c",
    )


async def ask(egress: ProviderEgress, request: GenerateRequest = QUESTION) -> list[Event]:
    backend = await egress.backend(cleared(request), request)
    events: list[Event] = []
    await backend.run(request, events.extend)
    await asyncio.to_thread(egress.flush)
    return events


def write_prices(config: Config, **models: dict[str, float]) -> None:
    lines = ["dated = 2026-11-01", 'currency = "EUR"', '["127.0.0.1"]']
    for name, price in models.items():
        fields = ", ".join(f"{key} = {value}" for key, value in price.items())
        lines.append(f"{name} = {{ {fields} }}")
    config.paths.config.mkdir(parents=True, exist_ok=True)
    (config.paths.config / "prices.toml").write_text("\n".join(lines))


async def test_ledger_bytes_equal_bytes_received(config: Config, cloud: Cloud) -> None:
    write_prices(config, m={"input": 1.0, "output": 10.0})
    egress = make_egress(config, cloud)
    for _ in range(3):
        await ask(egress)
    entries = egress.ledger.entries()
    assert sum(entry.bytes_out or 0 for entry in entries) == cloud.bytes
    assert [entry.cost for entry in entries] == [(40 * 1.0 + 2 * 10.0) / 1e6] * 3
    assert {entry.currency for entry in entries} == {"EUR"}
    assert verify(egress.ledger).ok


async def test_unknown_price_has_no_cost_but_tokens(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud)
    await ask(egress)
    (entry,) = egress.ledger.entries()
    assert (entry.cost, entry.prompt_tokens, entry.completion_tokens) == (None, 40, 2)


async def test_own_server_costs_nothing(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud, own=True)
    await ask(egress)
    assert egress.ledger.entries()[0].cost == 0.0


async def test_offline_creates_no_backend(config: Config, cloud: Cloud) -> None:
    make_egress(config, cloud)
    egress = ProviderEgress(replace(config, offline=True))
    with pytest.raises(RemoteForbidden):
        await egress.backend(cleared(), QUESTION)
    assert egress.trouble(egress.store.find("acme")) == "ingle is offline."
    assert cloud.requests == 0


async def test_request_must_match_its_clearance(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud, models=["m"])
    with pytest.raises(NotCleared):
        await egress.backend(cleared(), structs.replace(QUESTION, max_tokens=11))
    with pytest.raises(ProviderError, match="has no model"):
        await egress.backend(cleared(model="other"), QUESTION)
    with pytest.raises(UnknownProvider):
        await egress.backend(structs.replace(cleared(), provider="other"), QUESTION)
    assert (cloud.requests, egress.ledger.entries()) == (0, [])


async def test_without_a_key_nothing_is_sent(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud)
    egress.keys.remove("acme")
    assert "no key" in egress.trouble(egress.store.find("acme"))
    with pytest.raises(NoKey):
        await egress.backend(cleared(), QUESTION)


async def test_unwritable_ledger_prevents_sending(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud)
    config.paths.ledger.parent.mkdir(parents=True, exist_ok=True)
    config.paths.ledger.write_text("a file where the folder should be")
    with pytest.raises(LedgerUnwritable):
        await ask(egress)
    assert cloud.requests == 0


async def test_token_budget_counts_the_worst_case(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud, budget_tokens=400)
    await ask(egress)
    assert egress.ledger.entries()[0].reserved_tokens < 400
    with pytest.raises(BudgetExceeded):
        await ask(egress, structs.replace(QUESTION, max_tokens=500))
    for _ in range(10):
        try:
            await ask(egress)
        except BudgetExceeded:
            break
    spent = sum(entry.tokens_at_most for entry in egress.ledger.entries())
    assert spent <= 400
    assert 1 < cloud.requests < 10


async def test_money_budget(config: Config, cloud: Cloud) -> None:
    write_prices(config, m={"input": 1000.0, "output": 1000.0})
    egress = make_egress(config, cloud, budget_money=0.5)
    await ask(egress)
    with pytest.raises(BudgetExceeded, match="EUR"):
        await ask(egress, structs.replace(QUESTION, max_tokens=1000))
    assert cloud.requests == 1


async def test_money_budget_requires_a_price(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud, budget_money=100)
    with pytest.raises(BudgetExceeded, match="price"):
        await ask(egress)
    assert cloud.requests == 0


async def test_budget_counts_requests_in_flight(config: Config, cloud: Cloud) -> None:
    egress = make_egress(config, cloud, budget_tokens=250)
    cloud.gate = asyncio.Event()
    pending = [asyncio.ensure_future(ask(egress)) for _ in range(6)]
    while sum(task.done() for task in pending) + cloud.requests < 6:
        await asyncio.sleep(0.01)
    cloud.gate.set()
    ended = await asyncio.gather(*pending, return_exceptions=True)
    refused = [error for error in ended if isinstance(error, BudgetExceeded)]
    assert (len(refused), cloud.requests) == (5, 1)


async def test_cancelling_before_sending_writes_a_receipt(
    config: Config, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    egress = make_egress(config, cloud)
    gate, reserved, intend = threading.Event(), threading.Event(), egress.ledger.intend

    def slow_intend(*arguments: Any) -> Any:
        reserved.set()
        gate.wait(10)
        return intend(*arguments)

    monkeypatch.setattr(egress.ledger, "intend", slow_intend)
    task = asyncio.ensure_future(ask(egress))
    await asyncio.to_thread(reserved.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    while [entry.outcome for entry in egress.ledger.entries()] != ["cancelled"]:
        await asyncio.sleep(0.01)
    assert egress.ledger.entries()[0].cost == 0.0
    assert cloud.requests == 0


async def test_key_is_only_in_its_file(
    config: Config, cloud: Cloud, ingle_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    egress = make_egress(config, cloud)
    await ask(egress)
    assert files_with_key(ingle_home) == [egress.keys.path]
    assert egress.keys.path.stat().st_mode & 0o777 == 0o600
    assert KEY not in caplog.text
    assert KEY not in repr(egress.store.find("acme"))


def files_with_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and contains_key(path)]


def contains_key(path: Path) -> bool:
    return KEY.encode() in path.read_bytes()


class MemoryKeyring(keyring.backend.KeyringBackend):
    """An in-memory keyring."""

    priority = 1  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


def test_key_is_stored_in_the_keyring(tmp_path: Path) -> None:
    keyring.set_keyring(MemoryKeyring())
    keys = ProviderKeys(tmp_path)
    assert keys.set("acme", f" {KEY}\n") == "keyring"
    assert (keys.get("acme"), keys.place("acme")) == (KEY, "keyring")
    assert not contains_key(keys.path)
    assert ProviderKeys(tmp_path / "other").get("acme") is None
    assert keys.remove("acme")
    assert keys.get("acme") is None


def test_hanging_keyring_falls_back_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = threading.Event()

    class Stuck(MemoryKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            stuck.wait(10)

    monkeypatch.setattr(provider_keys, "KEYRING_SECONDS", 0.05)
    keyring.set_keyring(Stuck())
    keys = ProviderKeys(tmp_path)
    assert keys.set("acme", KEY) == "file"
    assert keys.get("acme") == KEY
    stuck.set()


@pytest.mark.parametrize("key", ["", "  ", "two words", "ключ", "x" * 5000, "a\x1b[0m"])
def test_invalid_keys_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ProviderError):
        ProviderKeys(tmp_path).set("acme", key)


def test_key_file_readable_by_others_is_refused(tmp_path: Path) -> None:
    keys = ProviderKeys(tmp_path)
    keys.set("acme", KEY)
    keys.path.chmod(0o644)
    with pytest.raises(ProviderError, match="Other users"):
        keys.get("acme")


def test_damaged_key_file_error_does_not_contain_the_key(tmp_path: Path) -> None:
    keys = ProviderKeys(tmp_path)
    keys.path.write_bytes(f'{{"keys": "{KEY}"'.encode())
    keys.path.chmod(0o600)
    with pytest.raises(ProviderError) as error:
        keys.get("acme")
    assert KEY not in str(error.value)


BAD_TABLES: dict[str, str] = {
    "no address": '[acme]\nkind = "openai"',
    "no kind": '[acme]\nbase_url = "https://a.example"',
    "an unknown kind": '[acme]\nkind = "soap"\nbase_url = "https://a.example"',
    "an unknown key": '[acme]\nkind = "openai"\nbase_url = "https://a.example"\ntypo = 1',
    "a secret": '[acme]\nkind = "openai"\nbase_url = "https://a.example"\napi_key = "sk-x"',
    "plain http": '[acme]\nkind = "openai"\nbase_url = "http://a.example/v1"',
    "a password": '[acme]\nkind = "openai"\nbase_url = "https://u:p@a.example"',
    "a query": '[acme]\nkind = "openai"\nbase_url = "https://a.example/?k=v"',
    "a line break": '[acme]\nkind = "openai"\nbase_url = "https://a.example/\\r\\nX: y"',
    "another scheme": '[acme]\nkind = "openai"\nbase_url = "file:///etc/passwd"',
    "a bad port": '[acme]\nkind = "openai"\nbase_url = "https://a.example:99999"',
    "a text for a number": '[acme]\nkind = "openai"\nbase_url = "https://a.example"\nretries = "2"',
    "a model with a blank": '[acme]\nkind = "openai"\nbase_url = "https://a.example"\n'
    'models = ["a b"]',
    "a reserved name": '[auto]\nkind = "openai"\nbase_url = "https://a.example"',
    "a bad name": '["A B"]\nkind = "openai"\nbase_url = "https://a.example"',
    "no table": "retries = 3",
    "no TOML": "[acme",
    "no UTF-8": "\udcff",
}


@pytest.mark.parametrize("table_name", BAD_TABLES)
def test_invalid_providers_file_is_refused(tmp_path: Path, table_name: str) -> None:
    (tmp_path / "providers.toml").write_bytes(
        BAD_TABLES[table_name].encode("utf-8", "surrogateescape")
    )
    with pytest.raises(ProviderError) as error:
        ProviderStore(tmp_path).providers()
    assert "providers.toml" in error.value.message
    assert "sk-x" not in error.value.message


def test_providers_file_keeps_its_comments(tmp_path: Path) -> None:
    store = ProviderStore(tmp_path)
    path = tmp_path / "providers.toml"
    path.write_text('# mine\n[a]\nkind = "openai"  # so\nbase_url = "https://a.example"\n')
    added = read_provider(
        "b.c", {"kind": "anthropic", "base_url": "https://b.example", "models": ["m"]}, "x"
    )
    store.add(added)
    assert [provider.name for provider in store.providers()] == ["a", "b.c"]
    assert store.find("b.c") == added
    with pytest.raises(ProviderError, match="already"):
        store.add(added)
    store.remove("b.c")
    assert "# mine" in path.read_text()
    assert "# so" in path.read_text()
    assert [provider.name for provider in store.providers()] == ["a"]


def test_prices_are_found_by_host_and_name(tmp_path: Path) -> None:
    prices = load_prices(None)
    openai = read_provider("o", {"kind": "openai", "base_url": "https://api.openai.com/v1"}, "x")
    mini = prices.find(openai, "gpt-5-mini-2025-08-07")
    assert mini is not None
    assert mini.of(TokenUsage(prompt=2_000_000, cached=1_000_000, completion=1_000_000)) == 2.275
    assert prices.find(openai, "gpt-5-mini-vision") is None
    assert prices.find(openai, "unheard-of") is None
    (tmp_path / "p.toml").write_text('dated = 2026-01-01\ncurrency = "USD"\n[h]\nm = {input=-1}')
    with pytest.raises(ProviderError):
        load_prices(tmp_path / "p.toml")


def test_prices_agree_with_genai_prices() -> None:
    """Our prices are written by hand; the `genai-prices` package must agree."""
    snapshot: Any = pytest.importorskip("genai_prices.data_snapshot").get_snapshot()
    hosts = {"api.openai.com": "openai", "api.anthropic.com": "anthropic", "api.groq.com": "groq"}
    ours = load_prices(None).hosts
    for host, name in hosts.items():
        (provider,) = [one for one in snapshot.providers if one.id == name]
        for model, price in ours[host].items():
            (known,) = [one for one in provider.models if one.match.is_match(model)]
            prices: Any = known.prices
            expected: Any = cast("list[Any]", prices)[-1].prices if type(prices) is list else prices
            assert float(expected.input_mtok) == price.input, model
            assert float(expected.output_mtok) == price.output, model
