"""Command-line coding agents: opencode, Codex, Claude Code, aider."""

from __future__ import annotations

from ..config_editing.document_path import ABSENT, find
from .client_program import ClientProgram
from .connect_target import ConnectTarget, ProgramFolders
from .settings_file import ProgramSetting, SettingsFile, has


def _opencode_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    folder = places.config("opencode")
    path = folder / "opencode.json"
    if not path.exists() and (folder / "opencode.jsonc").exists():
        path = folder / "opencode.jsonc"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "ingle",
        "options": {"baseURL": target.openai_url, "apiKey": target.word},
        "models": {
            target.model: {
                "name": target.model,
                "tool_call": True,
                "limit": {"context": target.context, "output": target.answer_tokens},
            }
        },
    }
    schema = ProgramSetting(("$schema",), "https://opencode.ai/config.json", unless=has("$schema"))
    model = ProgramSetting(("model",), f"ingle/{target.model}", unless=_has_other_model)
    return [
        SettingsFile(path, "json", [schema, ProgramSetting(("provider", "ingle"), provider), model])
    ]


def _has_other_model(data: object) -> bool:
    model = find(data, ("model",))
    return model is not ABSENT and not str(model).startswith("ingle/")


OPENCODE = ClientProgram(
    name="opencode",
    title="opencode",
    speaks="OpenAI",
    command="opencode",
    installed=lambda places: places.has_program("opencode") or places.config("opencode").is_dir(),
    files=_opencode_files,
    stays="Your own `model` stays the default; {how}",
    selects=lambda target: ["-m", f"ingle/{target.model}"],
    probes=("models", "chat", "chat_tools"),
    tokens=8_000,
    names_folder=True,
)


def _codex_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    provider: dict[str, object] = {
        "name": "ingle",
        "base_url": target.openai_url,
        "wire_api": "responses",
    }
    if target.key:
        provider["experimental_bearer_token"] = target.key
    path = places.named("CODEX_HOME", ".codex") / "config.toml"
    settings = [
        ProgramSetting(("model",), target.model, unless=_has_other_provider),
        ProgramSetting(("model_context_window",), target.context, unless=_has_other_provider),
        ProgramSetting(("model_provider",), "ingle", unless=_has_other_provider),
        ProgramSetting(("model_providers", "ingle"), provider),
    ]
    return [SettingsFile(path, "toml", settings)]


def _has_other_provider(data: object) -> bool:
    return find(data, ("model_provider",)) not in (ABSENT, "ingle")


CODEX = ClientProgram(
    name="codex",
    title="Codex",
    speaks="OpenAI Responses",
    command="codex",
    installed=lambda places: (
        places.has_program("codex") or places.named("CODEX_HOME", ".codex").is_dir()
    ),
    files=_codex_files,
    notes=lambda target: [
        "Codex warns that it has no metadata for this model: its context is set all the same."
    ],
    stays="Your own `model_provider` stays the default; {how}",
    selects=lambda target: [
        *("-c", "model_provider=ingle", "-c", f"model={target.model}"),
        *("-c", f"model_context_window={target.context}"),
    ],
    probes=("models", "responses", "responses_tools"),
    tokens=10_000,
)


def _claude_variables(target: ConnectTarget) -> list[tuple[str, str]]:
    return [
        ("ANTHROPIC_BASE_URL", target.url),
        ("ANTHROPIC_AUTH_TOKEN", target.word),
        ("ANTHROPIC_MODEL", target.model),
        ("ANTHROPIC_DEFAULT_OPUS_MODEL", target.model),
        ("ANTHROPIC_DEFAULT_SONNET_MODEL", target.model),
        ("ANTHROPIC_DEFAULT_HAIKU_MODEL", target.model),
        ("ANTHROPIC_SMALL_FAST_MODEL", target.model),
        # It knows the context windows of Anthropic's models only, and assumes others are far
        # larger.
        ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", str(target.context)),
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", str(target.answer_tokens)),
        # No telemetry; and a header that differs with each turn would defeat prefix caching.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
    ]


def _claude_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    path = places.named("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    settings = [ProgramSetting(("env", name), value) for name, value in _claude_variables(target)]
    return [SettingsFile(path, "json", settings)]


CLAUDE_CODE = ClientProgram(
    name="claude-code",
    title="Claude Code",
    aliases=("claude", "claudecode"),
    speaks="Anthropic",
    command="claude",
    agent="claude-cli",
    installed=lambda places: (
        places.has_program("claude") or places.named("CLAUDE_CONFIG_DIR", ".claude").is_dir()
    ),
    files=_claude_files,
    exports=_claude_variables,
    notes=lambda target: [
        "With these settings Claude Code uses ingle only; `ingle connect claude-code --remove` "
        "switches it back to Anthropic. For one shell only: the variables that `--print` shows."
    ],
    probes=("models", "messages", "messages_tools", "count_tokens"),
    tokens=20_000,
    names_folder=True,
)


def _aider_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    name = f"openai/{target.model}"
    facts = {
        "max_tokens": target.answer_tokens,
        "max_input_tokens": target.context,
        "max_output_tokens": target.answer_tokens,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
    }
    settings = [
        ProgramSetting(("model",), name),
        ProgramSetting(("openai-api-base",), target.openai_url),
        ProgramSetting(("openai-api-key",), target.word),
    ]
    return [
        SettingsFile(places.home / ".aider.conf.yml", "yaml", settings),
        SettingsFile(
            places.home / ".aider.model.metadata.json", "json", [ProgramSetting((name,), facts)]
        ),
    ]


AIDER = ClientProgram(
    name="aider",
    title="aider",
    speaks="OpenAI",
    command="aider",
    installed=lambda places: places.has_program("aider"),
    files=_aider_files,
    exports=lambda target: [
        ("OPENAI_API_BASE", target.openai_url),
        ("OPENAI_API_KEY", target.word),
        ("AIDER_MODEL", f"openai/{target.model}"),
    ],
    notes=lambda target: [
        "A `.aider.conf.yml` in the repository takes precedence over the one at home."
    ],
    probes=("models", "chat"),
    tokens=3_000,
)
