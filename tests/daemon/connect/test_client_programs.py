"""Settings files of client programs: created, merged into existing files, updated and removed."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingle.daemon.cli.command_errors import CommandError
from ingle.daemon.config_editing.document_path import CannotEdit
from ingle.daemon.connect.change_record import ChangeRecord
from ingle.daemon.connect.client_program import ClientProgram
from ingle.daemon.connect.client_programs import CLIENTS, find_program
from ingle.daemon.connect.connect_target import ConnectTarget, ProgramFolders
from ingle.daemon.connect.connection_probe import PROBES
from ingle.daemon.connect.settings_change import plan, plan_removal, take_back, write

WRITTEN = [client for client in CLIENTS.values() if client.writes]

EXISTING = {
    "continue": """\
name: My assistant
version: 0.0.1
schema: v1
models:
  # paid
  - name: GPT
    provider: openai
    model: gpt-4o
    apiKey: sk-mine  # do not lose

context:
  - provider: code
""",
    "zed": """\
// Zed settings, see the docs
{
  "theme": { "mode": "system", "light": "One Light" }, // pretty
  "language_models": {
    // my own server
    "ollama": { "api_url": "http://elsewhere:11434" },
  },
}
""",
    "vscode": """\
[
\t{
\t\t"name": "OpenRouter",
\t\t"vendor": "openrouter",
\t\t"apiKey": "${input:chat.lm.secret.1}"
\t}
]
""",
    "cline": """\
{
  "version": 1,
  "lastUsedProvider": "anthropic",
  "modes": {},
  "providers": {
    "anthropic": {
      "settings": { "provider": "anthropic", "apiKey": "sk-ant" },
      "updatedAt": "2026-01-01T00:00:00.000Z",
      "tokenSource": "manual"
    }
  }
}
""",
    "llama.vim": """\
" mine
set nocompatible
call plug#begin()
Plug 'ggml-org/llama.vim'
call plug#end()
""",
    "opencode": """\
{
  "$schema": "https://opencode.ai/config.json",
  "theme": "tokyonight",
  "model": "anthropic/claude-opus", // the good one
  "provider": {
    "anthropic": { "options": { "apiKey": "{env:KEY}" } }
  }
}
""",
    "codex": """\
# codex
model = "gpt-5.6"
model_reasoning_effort = "high" # slow

[mcp_servers.files]
command = "npx"

[projects."/home/me/x"]
trust_level = "trusted"
""",
    "claude-code": """\
{
  "permissions": {
    "allow": ["Bash(ls:*)"]
  },
  "env": {
    "ANTHROPIC_MODEL": "opus",
    "MY_OWN": "1"
  }
}
""",
    "aider": "# aider\nmodel: sonnet\nauto-commits: false  # I commit\n",
    "qwen-code": """\
{
  "modelProviders": {
    "openai": [
      { "id": "qwen3-coder-plus", "name": "Plus", "envKey": "DASHSCOPE_API_KEY" }
    ]
  },
  "env": {
    "DASHSCOPE_API_KEY": "sk-mine"
  },
  "security": { "auth": { "selectedType": "qwen-oauth" } }
}
""",
    "pi": """\
{
  "providers": {
    "ollama": { "baseUrl": "http://localhost:11434/v1", "apiKey": "ollama", "models": [] }
  }
}
""",
    "vibe": """\
# vibe
vim_keybindings = true # of course

[[providers]]
name = "mistral"
api_base = "https://api.mistral.ai/v1"
api_key_env_var = "MISTRAL_API_KEY"

[[models]]
name = "devstral-small-latest"
provider = "mistral"
alias = "devstral-small" # cheap

[tools.bash]
permission = "ask"
""",
    "gptme": """\
[env]
ANTHROPIC_API_KEY = "sk-mine" # secret

[models]
# the ones that I like
favorites = ["anthropic/claude-sonnet"]

[[providers]]
name = "groq"
base_url = "https://api.groq.com/openai/v1"
""",
    "goose": '{\n  "name": "custom_ingle",\n  "timeout_seconds": 30\n}\n',
    "crush": """\
{
  "$schema": "https://charm.land/crush.json",
  "lsp": { "go": { "command": "gopls" } }, // needed
  "providers": {
    "deepseek": { "type": "openai-compat", "api_key": "$DEEPSEEK_API_KEY" }
  }
}
""",
}


def read(path: Path, form: str) -> Any:
    text = path.read_text()
    if form == "toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if form == "yaml" else json.loads(text)


@pytest.fixture
def record(tmp_path: Path) -> ChangeRecord:
    return ChangeRecord(tmp_path / "state/connections.json")


def connect(
    client: ClientProgram, target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> list[Path]:
    return write(plan(client.files(target, places)), record, client.name, target)


def all_files(home: Path) -> dict[str, bytes]:
    """All files except ingle's backups."""
    files = (path for path in home.rglob("*") if path.is_file() and "ingle-backup" not in path.name)
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_settings_are_created_idempotently_and_removed(
    client: ClientProgram, target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    assert connect(client, target, places, record) == []
    files = client.files(target, places)
    for file in files:
        if file.form in ("json", "toml", "yaml"):
            assert read(file.path, file.form)
        assert target.url in "".join(other.path.read_text() for other in files)
        if sys.platform != "win32":
            assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    changes = plan(client.files(target, places))
    assert not any(change.is_one or change.keeps_other for change in changes)
    take_back(plan_removal(record, client.name, files), record, client.name)
    assert all_files(places.home) == {}
    assert record.files(client.name) == {}


@pytest.mark.parametrize("name", EXISTING)
def test_existing_settings_are_kept_and_restored(
    name: str, target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    client = CLIENTS[name]
    path = client.files(target, places)[0].path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(EXISTING[name])
    path.chmod(0o640)
    before = all_files(places.home)
    copies = connect(client, target, places, record)
    assert [copy.read_text() for copy in copies] == [EXISTING[name]]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(copies[0].stat().st_mode) == 0o640
    new = path.read_text()
    for line in EXISTING[name].splitlines():
        # Only values that are overridden differ; the comments next to them are kept.
        changed = ("model", "ollama", "lastUsed", "ANTHROPIC_MODEL", '"providers"', "MY_OWN")
        changed += ("DASHSCOPE", "selectedType")
        assert line.rstrip(",") in new or any(word in line for word in changed), line
        if "#" in line:
            assert line[line.index("#") :] in new
    assert not any(change.is_one for change in plan(client.files(target, places)))
    # After switching the model and then removing everything, the original bytes are restored.
    connect(client, replace(target, model="smollm2:135m"), places, record)
    files = client.files(target, places)
    take_back(plan_removal(record, client.name, files), record, client.name)
    assert all_files(places.home) == before


@pytest.mark.parametrize("name", EXISTING)
def test_removal_keeps_later_user_edits(
    name: str, target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    client = CLIENTS[name]
    file = client.files(target, places)[0]
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(EXISTING[name])
    connect(client, target, places, record)
    comment = {"json": "// later\n", "vim": '" later\n'}.get(file.form, "# later\n")
    file.path.write_text(file.path.read_text() + comment)
    for again in (False, True):
        if again:
            connect(client, replace(target, model="other"), places, record)
        changes = plan_removal(record, client.name, client.files(target, places))
        after = changes[0].after
        assert after is not None
        expected = (EXISTING[name] + comment).splitlines()
        assert [line for line in after.splitlines() if line] == [line for line in expected if line]


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_removal_without_a_change_record_removes_own_settings(
    client: ClientProgram,
    target: ConnectTarget,
    places: ProgramFolders,
    record: ChangeRecord,
    tmp_path: Path,
) -> None:
    connect(client, target, places, record)
    empty_record = ChangeRecord(tmp_path / "none.json")
    for change in plan_removal(empty_record, client.name, client.files(target, places)):
        assert change.after is not None
        assert target.url not in change.after


def test_written_values_per_program(
    target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    for client in WRITTEN:
        connect(client, target, places, record)
    home = places.home
    codex = read(home / ".codex/config.toml", "toml")
    assert codex["model_provider"] == "ingle"
    assert codex["model_providers"]["ingle"] == {
        "name": "ingle",
        "base_url": "http://127.0.0.1:4645/v1",
        "wire_api": "responses",
    }
    (model,) = read(home / ".continue/config.yaml", "yaml")["models"]
    assert (model["provider"], model["apiBase"]) == ("openai", "http://127.0.0.1:4645/v1")
    opencode = read(home / ".config/opencode/opencode.json", "json")
    assert opencode["model"] == "ingle/qwen2.5-coder:1.5b"
    assert opencode["provider"]["ingle"]["models"][target.model]["limit"] == {
        "context": 32768,
        "output": 8192,
    }
    aider = read(home / ".aider.conf.yml", "yaml")
    assert aider["model"] == "openai/qwen2.5-coder:1.5b"
    (entry,) = read(home / ".config/Code/User/chatLanguageModels.json", "json")
    assert entry == {"name": "ingle", "vendor": "ollama", "url": "http://127.0.0.1:4645"}
    vibe = read(home / ".vibe/config.toml", "toml")
    assert vibe["active_model"] == vibe["models"][0]["alias"] == "ingle"
    assert vibe["providers"] == [{"name": "ingle", "api_base": "http://127.0.0.1:4645/v1"}]
    gptme = read(home / ".config/gptme/config.toml", "toml")
    assert gptme["models"]["default"] == "ingle/qwen2.5-coder:1.5b"
    assert gptme["providers"][0]["base_url"] == "http://127.0.0.1:4645/v1"
    qwen = read(home / ".qwen/settings.json", "json")
    assert qwen["modelProviders"]["openai"][0]["generationConfig"]["contextWindowSize"] == 32768
    assert qwen["env"] == {qwen["modelProviders"]["openai"][0]["envKey"]: "local"}
    goose = read(home / ".config/goose/config.yaml", "yaml")
    assert goose == {"GOOSE_PROVIDER": "custom_ingle", "GOOSE_MODEL": "qwen2.5-coder:1.5b"}


def test_api_key_is_written_or_exported(target: ConnectTarget, places: ProgramFolders) -> None:
    keyed = replace(target, key="ingle-key")
    for client in WRITTEN:
        text = "".join(file.edited("") for file in client.files(keyed, places))
        assert ("ingle-key" in text) is client.takes_key, client.name
        shown = "\n".join([*client.notes(keyed), *(value for _, value in client.exports(keyed))])
        assert "ingle-key" in text + shown, client.name


def test_item_of_a_toml_list_that_is_written_inline_is_left_alone(
    target: ConnectTarget, places: ProgramFolders
) -> None:
    file = CLIENTS["vibe"].files(target, places)[0]
    with pytest.raises(CannotEdit, match="does not change"):
        file.edited('providers = [{ name = "mistral" }]\n')


def test_default_model_of_another_provider_is_kept(
    target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    path = places.home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('model = "x"\nmodel_provider = "azure"\n')
    connect(CLIENTS["codex"], target, places, record)
    (change,) = plan(CLIENTS["codex"].files(target, places))
    assert change.keeps_other
    codex = read(path, "toml")
    assert (codex["model"], codex["model_provider"]) == ("x", "azure")
    assert "ingle" in codex["model_providers"]


HOSTILE = [b"\xff\xfe{", b"[1, 2", b"a: [", b'"""', b"\x00"]


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_unreadable_files_are_left_unchanged(
    client: ClientProgram, target: ConnectTarget, places: ProgramFolders, record: ChangeRecord
) -> None:
    file = client.files(target, places)[0]
    file.path.parent.mkdir(parents=True, exist_ok=True)
    for content in HOSTILE if file.form != "vim" else HOSTILE[:1]:
        file.path.write_bytes(content)
        with pytest.raises(CannotEdit) as caught:
            plan(client.files(target, places))
        assert str(file.path) in str(caught.value)
        assert file.path.read_bytes() == content
    file.path.unlink()
    file.path.mkdir()
    with pytest.raises(CannotEdit, match="cannot be read"):
        plan(client.files(target, places))


def test_unexpected_json_types_are_rejected(target: ConnectTarget, places: ProgramFolders) -> None:
    for name, text in (("zed", "[]"), ("claude-code", '{"env": []}'), ("vscode", "{}")):
        file = CLIENTS[name].files(target, places)[0]
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_text(text)
        with pytest.raises(CannotEdit, match="is not a"):
            plan([file])


def test_symlinked_settings_files_stay_symlinks(
    target: ConnectTarget, places: ProgramFolders, record: ChangeRecord, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(EXISTING["zed"])
    path = CLIENTS["zed"].files(target, places)[0].path
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    connect(CLIENTS["zed"], target, places, record)
    assert path.is_symlink()
    assert target.url in real.read_text()
    files = CLIENTS["zed"].files(target, places)
    take_back(plan_removal(record, "zed", files), record, "zed")
    assert path.is_symlink()
    assert real.read_text() == EXISTING["zed"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on files")
def test_full_disk_leaves_the_original_file(
    target: ConnectTarget,
    places: ProgramFolders,
    record: ChangeRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = CLIENTS["zed"].files(target, places)[0].path
    path.parent.mkdir(parents=True)
    path.write_text(EXISTING["zed"])
    changes = plan(CLIENTS["zed"].files(target, places))

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandError, match="No space left"):
        write(changes, record, "zed", target)
    assert {p.name for p in path.parent.iterdir()} == {path.name}
    assert path.read_text() == EXISTING["zed"]


def test_every_program_has_known_probes() -> None:
    for client in CLIENTS.values():
        assert client.probes
        assert set(client.probes) <= set(PROBES)


def test_program_names_and_aliases_are_unique() -> None:
    names = [name for each in CLIENTS.values() for name in (each.name, *each.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "found", "near"),
    [
        ("Codex", "codex", "codex"),
        ("claude", "claude-code", None),
        ("zedd", None, "zed"),
        ("Nvim", "llama.vim", None),
    ],
)
def test_find_program_by_alias_or_similar_name(
    name: str, found: str | None, near: str | None
) -> None:
    client, nearest = find_program(name)
    assert (client.name if client else None) == found
    assert near is None or nearest == near


def test_config_folders_per_platform(tmp_path: Path) -> None:
    linux = ProgramFolders(tmp_path, {"XDG_CONFIG_HOME": "/cfg"}, "linux")
    assert linux.application("Code") == Path("/cfg/Code")
    mac = ProgramFolders(tmp_path, {}, "darwin")
    assert mac.application("Code") == tmp_path / "Library/Application Support/Code"
    windows = ProgramFolders(tmp_path, {"APPDATA": str(tmp_path / "Roaming")}, "win32")
    assert windows.application("Code") == tmp_path / "Roaming/Code"
    assert linux.named("CODEX_HOME", ".codex") == tmp_path / ".codex"
    assert ProgramFolders(tmp_path, {"CODEX_HOME": "/x"}).named("CODEX_HOME", ".codex") == Path(
        "/x"
    )
