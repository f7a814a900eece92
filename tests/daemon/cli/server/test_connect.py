"""`ingle connect` on the command line, with a real daemon and a temporary home."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.daemon.access.api_keys import KeyRing, KeyStore
from ingle.daemon.client.model_types import ModelEntry
from ingle.daemon.connect.client_program import ClientProgram
from ingle.daemon.connect.client_programs import CLIENTS
from ingle.daemon.connect.model_choice import choose_model, warn_of_context
from ingle.daemon.main import main

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def home(tmp_path: Path, ingle_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, and an environment that points to no other configuration."""
    for name in list(os.environ):
        if name.startswith(("INGLE_", "XDG_", "CODEX_", "CLAUDE_", "CLINE_", "CONTINUE_")):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    return folder


@pytest.fixture
async def served(home: Path, run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon() as daemon:
        yield daemon


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `ingle connect …`; returns exit status, stdout and stderr."""

    async def connect(*arguments: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["connect", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return connect


def contents(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_list_does_not_need_the_daemon(home: Path, run: Run) -> None:
    status, out, _ = await run()
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(CLIENTS)
    assert max(map(len, lines)) <= 80
    (home / ".codex").mkdir()
    _, out, _ = await run("--json")
    facts = {fact["name"]: fact for fact in json.loads(out)["clients"]}
    assert facts["codex"]["installed"] is True
    assert facts["codex"]["connected"] is False


async def test_settings_are_previewed_written_and_removed(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    file = home / ".codex/config.toml"
    status, out, err = await run("codex")
    assert status == 0
    assert f'+base_url = "{served.base_url}/v1"' in out
    assert "Nothing is written yet" in err
    assert not file.exists()
    status, out, err = await run("codex", "--write")
    assert status == 0
    assert 'model = "echo:1"' in file.read_text()
    status, out, err = await run("codex", "--write")
    assert (status, out) == (0, "")
    assert "Nothing to change" in err
    assert "connected" in (await run())[1]
    status, _, err = await run("codex", "--remove")
    assert status == 0
    assert f"Removed: {file}" in err
    assert list(file.parent.iterdir()) == []
    assert "contain nothing of ingle's" in (await run("codex", "--remove"))[2]


async def test_print_outputs_settings_without_writing(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    _, out, _ = await run("zed", "--print")
    assert json.loads(out) == {"language_models": {"ollama": {"api_url": served.base_url}}}
    _, out, err = await run("claude-code", "--print")
    assert json.loads(out)["env"]["ANTHROPIC_BASE_URL"] == served.base_url
    assert f"export ANTHROPIC_BASE_URL={served.base_url}\n" in err
    _, out, _ = await run("open-webui", "--print")
    assert f"export OLLAMA_BASE_URL={served.base_url}\n" in out
    _, out, _ = await run("open-webui", "--print", "--json")
    assert json.loads(out)["variables"]["OPENAI_API_BASE_URL"] == f"{served.base_url}/v1"
    assert contents(home) == []


async def test_check_verifies_settings_and_connection(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    status, out, _ = await run("aider", "--check")
    assert status == 1
    assert "failed  " in out
    assert "not written yet" in out
    status, out, _ = await run("aider", "--write", "--check")
    assert status == 0
    assert out.count("ok      ") == 4
    status, out, _ = await run("aider", "--check", "--json")
    output = json.loads(out)
    assert output["worked"] is True
    assert [check["worked"] for check in output["checks"]] == [True] * 4


async def test_rewriting_keeps_the_selected_model(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    assert (await run("aider", "--write", "--model", "echo"))[0] == 0
    assert 'model: "openai/echo:1"' in (home / ".aider.conf.yml").read_text()
    assert "Nothing to change" in (await run("aider", "--write"))[2]
    status, _, err = await run("aider", "--write", "--model", "gone")
    assert status == 1
    assert "gone" in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "written"), [("y", True), ("n", False), ("", False)])
async def test_terminal_asks_for_confirmation_before_writing(
    home: Path, served: RunningDaemon, answer: str, written: bool
) -> None:
    outer, inner = os.openpty()
    command = [sys.executable, "-P", "-m", "ingle.daemon.main", "connect", "zed"]
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=inner, stdout=inner, stderr=inner, env=environment, cwd=home
    )
    os.close(inner)
    os.write(outer, f"{answer}\n".encode())
    assert await process.wait() == 0
    shown = os.read(outer, 65536).decode()
    os.close(outer)
    assert "\x1b[32m+" in shown
    assert "Write this? [y/N]" in shown
    assert (home / ".config/zed/settings.json").exists() is written


async def test_api_key_is_created_once_and_revoked_on_remove(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    store = KeyStore(served.services.config.paths.keys)
    _, out, _ = await run("opencode", "--key")
    assert "ingle-<a new key>" in out
    assert store.list() == []
    await run("opencode", "--key", "--write")
    (record,) = store.list()
    assert record.name == "connect opencode"
    file = home / ".config/opencode/opencode.json"
    key = json.loads(file.read_text())["provider"]["ingle"]["options"]["apiKey"]
    answer = await served.tcp.get("/v1/models", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    assert "Nothing to change" in (await run("opencode", "--key", "--write"))[2]
    assert store.list() == [record]
    _, _, err = await run("opencode", "--remove")
    assert "is revoked" in err
    assert store.list() == []


async def test_unparsable_settings_file_is_reported_and_left_unchanged(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text("{ this is no JSON")
    status, out, err = await run("claude-code", "--write")
    assert (status, out) == (1, "")
    assert str(file) in err
    assert "--print" in err
    assert file.read_text() == "{ this is no JSON"
    file.write_bytes(b"\xff")
    status, out, err = await run("claude-code", "--write")
    assert (status, out) == (1, "")
    assert f"{file} is not UTF-8." in err
    assert (await run("claude-code", "--print"))[0] == 0


async def test_key_for_an_environment_variable_is_printed(
    home: Path, served: RunningDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeyStore(served.services.config.paths.keys)
    for _ in range(2):  # the second time only the key is new
        _, _, err = await run("zed", "--write", "--key")
        (key,) = re.findall(r"OLLAMA_API_KEY=(ingle-\w{52})$", err, re.MULTILINE)
        assert KeyRing(store).find(key) is not None
    monkeypatch.setattr("ingle.daemon.cli.server.connect._needs_key", lambda: True)
    assert "OLLAMA_API_KEY" not in (await run("zed", "--write"))[2]
    assert len(store.list()) == 1


async def test_key_is_created_when_authentication_is_required(
    home: Path, served: RunningDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.daemon.cli.server.connect._needs_key", lambda: True)
    await run("opencode", "--write")
    assert [key.name for key in KeyStore(served.services.config.paths.keys).list()] == [
        "connect opencode"
    ]
    assert (await run("opencode", "--check"))[1].startswith("ok ")


async def test_connect_requires_a_tcp_address(home: Path, served: RunningDaemon, run: Run) -> None:
    object.__setattr__(served.services, "address", None)
    status, _, err = await run("zed")
    assert status == 1
    assert "unix socket only" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "ingle does not know a program 'nobody'"),
        (["codx"], "Did you mean `ingle connect codex`?"),
        (["zed", "--write", "--print"], "not allowed with"),
        (["--check"], "No program was named."),
    ],
)
async def test_invalid_arguments_exit_with_2(
    home: Path, run: Run, arguments: list[str], message: str
) -> None:
    status, out, err = await run(*arguments)
    assert (status, out) == (2, "")
    assert message in err


def model_entry(
    name: str, parameters: int, *, installed: bool = True, chat: bool = True
) -> ModelEntry:
    return ModelEntry(
        name=name, state="stopped", parameters=parameters, installed=installed, chat=chat
    )


@pytest.mark.parametrize(
    ("client", "default", "chosen"),
    [
        ("codex", "smollm2:135m", "qwen2.5-coder:1.5b"),
        ("codex", "qwen2.5-coder:0.5b", "qwen2.5-coder:0.5b"),
        ("open-webui", "smollm2:135m", "smollm2:135m"),
    ],
)
def test_coding_agents_get_the_largest_installed_coding_model(
    client: str, default: str, chosen: str
) -> None:
    entries = [
        model_entry("smollm2:135m", 1),
        model_entry("qwen2.5-coder:0.5b", 5),
        model_entry("qwen2.5-coder:1.5b", 15),
        model_entry("starcoder:7b", 70, chat=False),
        model_entry("devstral:24b", 240, installed=False),
    ]
    model, notice = choose_model(CLIENTS[client], entries, default)
    assert model == chosen
    assert (notice is not None) is (model != default)


def test_loaded_copy_of_a_model_is_preferred() -> None:
    copies = [
        model_entry("qwen2.5-coder:1.5b", 15),
        msgspec.structs.replace(model_entry("mine:coder", 15), same_as="qwen2.5-coder:1.5b"),
    ]
    assert choose_model(CLIENTS["codex"], copies[::-1], "smollm2")[0] == "qwen2.5-coder:1.5b"
    copies[1] = msgspec.structs.replace(copies[1], state="ready")
    assert choose_model(CLIENTS["codex"], copies, "smollm2")[0] == "mine:coder"


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
async def test_launch_runs_the_program_with_its_variables(
    home: Path, served: RunningDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = home.parent / "bin"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text(
            f'#!/bin/sh\necho "$@" "$ANTHROPIC_BASE_URL" > {home.parent}/{name}\nexit 3\n'
        )
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    status, _, _ = await run("claude-code", "--launch", "--", "-p", "hi")
    assert status == 3
    assert (home.parent / "claude").read_text() == f"-p hi {served.base_url}\n"
    assert contents(home) == []  # its variables say it all
    status, _, _ = await run("codex", "--launch", "--write")
    settings = home / ".codex/config.toml"
    assert (status, settings.exists()) == (3, True)
    assert (home.parent / "codex").read_text() == "\n"
    settings.write_text('model_provider = "azure"\n')
    status, out, err = await run("codex", "--write")
    assert "Your own `model_provider` stays the default" in out + err
    await run("codex", "--launch", "--write", "--", "exec", "hi")
    assert (home.parent / "codex").read_text() == (
        "-c model_provider=ingle -c model=echo:1 -c model_context_window=512 exec hi \n"
    )
    status, _, err = await run("zed", "--launch", "--write")
    assert (status, "cannot be started from here" in err) == (1, True)


def test_small_context_is_warned_about_for_agents() -> None:
    codex: ClientProgram = CLIENTS["codex"]
    assert "8192" in (warn_of_context(codex, "smollm2", 8192) or "")
    assert warn_of_context(codex, "qwen", 32768) is None
    assert warn_of_context(CLIENTS["llama.vim"], "smollm2", 512) is None


async def test_context_of_a_loaded_model_is_kept_after_unloading(
    home: Path, served: RunningDaemon, run: Run
) -> None:
    file = home / ".codex/config.toml"
    await run("codex", "--write")
    written = file.read_text()
    assert "model_context_window = 512" in written
    body = {"model": "echo:1", "context": 2048}
    assert (await served.tcp.post("/ingle/v1/load", json=body)).status_code == 200
    await run("codex", "--write")
    assert "model_context_window = 2048" in file.read_text()
    await served.tcp.post("/ingle/v1/unload", json={"model": "echo:1"})
    assert "Nothing to change" in (await run("codex", "--write"))[2]
