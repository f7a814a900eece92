"""More command-line agents: Copilot, Qwen Code, pi, Mistral Vibe, gptme, goose, Crush."""

from __future__ import annotations

from collections.abc import Callable

from ..config_editing.document_path import ABSENT, DocumentItem, find
from .client_program import ClientProgram
from .connect_target import ConnectTarget, ProgramFolders
from .settings_file import ProgramSetting, SettingsFile, has

_OURS = DocumentItem("name", "ingle")
_QWEN_KEY = "LOCAL_MODEL_KEY"
"""The variable of the key; one that begins with INGLE would be taken for a setting of ingle."""

COPILOT = ClientProgram(
    name="copilot-cli",
    title="GitHub Copilot CLI",
    speaks="OpenAI",
    command="copilot",
    agent="GitHub Copilot CLI",
    installed=lambda places: places.has_program("copilot"),
    exports=lambda target: [
        ("COPILOT_PROVIDER_TYPE", "openai"),
        ("COPILOT_PROVIDER_BASE_URL", target.openai_url),
        ("COPILOT_PROVIDER_API_KEY", target.word),
        ("COPILOT_MODEL", target.model),
        ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", str(target.context - target.answer_tokens)),
        ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", str(target.answer_tokens)),
        ("COPILOT_OFFLINE", "true"),
    ],
    notes=lambda target: [
        "Copilot CLI has no settings file for this: set the variables in the shell that starts it, "
        "or start it with `ingle connect copilot-cli --launch`."
    ],
    probes=("models", "chat", "chat_tools"),
    tokens=11_000,
    names_folder=True,
)


def _unless_other(path: tuple[str, ...], ours: str) -> ProgramSetting:
    """Return the setting of a default provider, unless the user has chosen another."""
    return ProgramSetting(path, ours, unless=lambda data: find(data, path) not in (ABSENT, ours))


def _qwen_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    model = {
        "id": target.model,
        "name": "ingle",
        "baseUrl": target.openai_url,
        "envKey": _QWEN_KEY,
        "generationConfig": {
            "contextWindowSize": target.context,
            "samplingParams": {"max_tokens": target.answer_tokens},
        },
    }
    path = places.named("QWEN_HOME", ".qwen") / "settings.json"
    settings = [
        ProgramSetting(("modelProviders", "openai", _OURS), model),
        ProgramSetting(("env", _QWEN_KEY), target.word),
        ProgramSetting(("security", "auth", "selectedType"), "openai"),
        ProgramSetting(("model", "name"), target.model),
    ]
    return [SettingsFile(path, "json", settings)]


QWEN_CODE = ClientProgram(
    name="qwen-code",
    title="Qwen Code",
    aliases=("qwen",),
    speaks="OpenAI",
    command="qwen",
    installed=lambda places: (
        places.has_program("qwen") or places.named("QWEN_HOME", ".qwen").is_dir()
    ),
    files=_qwen_files,
    notes=lambda target: ["`/model` in Qwen Code switches between this model and others."],
    probes=("models", "chat", "chat_tools"),
    tokens=15_000,
    names_folder=True,
)


def _pi_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    folder = places.named("PI_CODING_AGENT_DIR", ".pi/agent")
    provider = {
        "baseUrl": target.openai_url,
        "api": "openai-completions",
        "apiKey": target.word,
        "models": [
            {
                "id": target.model,
                "contextWindow": target.context,
                "maxTokens": target.answer_tokens,
            }
        ],
    }
    default = _unless_other(("defaultProvider",), "ingle")
    return [
        SettingsFile(
            folder / "models.json", "json", [ProgramSetting(("providers", "ingle"), provider)]
        ),
        SettingsFile(
            folder / "settings.json",
            "json",
            [
                ProgramSetting(("defaultModel",), target.model, unless=default.unless),
                default,
            ],
        ),
    ]


PI = ClientProgram(
    name="pi",
    title="pi",
    speaks="OpenAI",
    command="pi",
    installed=lambda places: (
        places.has_program("pi") or places.named("PI_CODING_AGENT_DIR", ".pi/agent").is_dir()
    ),
    files=_pi_files,
    stays="Your own `defaultProvider` stays; {how}",
    selects=lambda target: ["--provider", "ingle", "--model", target.model],
    probes=("models", "chat", "chat_tools"),
    tokens=1_400,
    names_folder=True,
)


def _vibe_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    provider: dict[str, object] = {"name": "ingle", "api_base": target.openai_url}
    if target.key:
        provider["extra_headers"] = {"Authorization": f"Bearer {target.key}"}
    model = {
        "name": target.model,
        "provider": "ingle",
        "alias": "ingle",
        "max_context_length": target.context,
        "auto_compact_threshold": target.context - target.answer_tokens,
    }
    path = places.named("VIBE_HOME", ".vibe") / "config.toml"
    settings = [
        _unless_other(("active_model",), "ingle"),
        ProgramSetting(("providers", _OURS), provider),
        ProgramSetting(("models", DocumentItem("alias", "ingle")), model),
    ]
    return [SettingsFile(path, "toml", settings)]


VIBE = ClientProgram(
    name="vibe",
    title="Mistral Vibe",
    aliases=("mistral-vibe",),
    speaks="OpenAI",
    command="vibe",
    installed=lambda places: (
        places.has_program("vibe") or places.named("VIBE_HOME", ".vibe").is_dir()
    ),
    files=_vibe_files,
    stays="Your own `active_model` stays; `/model` selects 'ingle'.",
    probes=("models", "chat", "chat_tools"),
    tokens=8_000,
)


def _gptme_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    provider = {
        "name": "ingle",
        "base_url": target.openai_url,
        "api_key": target.word,
        "default_model": target.model,
    }
    model = f"ingle/{target.model}"
    settings = [
        ProgramSetting(("providers", _OURS), provider),
        ProgramSetting(("models", "default"), model, unless=_has_other_gptme_model),
    ]
    # gptme reads this path on every system.
    return [SettingsFile(places.home / ".config/gptme/config.toml", "toml", settings)]


def _has_other_gptme_model(data: object) -> bool:
    model = find(data, ("models", "default"))
    return model is not ABSENT and not str(model).startswith("ingle/")


GPTME = ClientProgram(
    name="gptme",
    title="gptme",
    speaks="OpenAI",
    command="gptme",
    installed=lambda places: (
        places.has_program("gptme") or (places.home / ".config/gptme").is_dir()
    ),
    files=_gptme_files,
    stays="Your own default model stays; {how}",
    selects=lambda target: ["-m", f"ingle/{target.model}"],
    probes=("models", "chat"),
    tokens=6_000,
)


def _goose_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    name = "custom_ingle"
    folder = places.config("goose")
    if places.platform == "win32":
        folder = places.application("Block") / "goose/config"
    provider: dict[str, object] = {
        "name": name,
        "engine": "openai",
        "display_name": "ingle",
        "description": "Models on this machine",
        "api_key_env": "",
        "base_url": f"{target.openai_url}/chat/completions",
        "models": [{"name": target.model, "context_limit": target.context}],
        "supports_streaming": True,
        "requires_auth": False,
    }
    if target.key:
        provider["headers"] = {"Authorization": f"Bearer {target.key}"}
    settings = [ProgramSetting((key,), value) for key, value in provider.items()]
    default = _unless_other(("GOOSE_PROVIDER",), name)
    model = ProgramSetting(("GOOSE_MODEL",), target.model, unless=default.unless)
    return [
        SettingsFile(folder / f"custom_providers/{name}.json", "json", settings),
        SettingsFile(folder / "config.yaml", "yaml", [model, default]),
    ]


GOOSE = ClientProgram(
    name="goose",
    title="goose",
    speaks="OpenAI",
    command="goose",
    installed=lambda places: places.has_program("goose") or places.config("goose").is_dir(),
    files=_goose_files,
    exports=lambda target: [("GOOSE_PROVIDER", "custom_ingle"), ("GOOSE_MODEL", target.model)],
    stays="Your own `GOOSE_PROVIDER` stays the default; the variables that `--print` shows select "
    "ingle's model.",
    probes=("models", "chat", "chat_tools"),
)


def _crush_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    provider = {
        "name": "ingle",
        "type": "openai-compat",
        "base_url": target.openai_url,
        "api_key": target.word,
        "models": [
            {
                "id": target.model,
                "name": target.model,
                "context_window": target.context,
                "default_max_tokens": target.answer_tokens,
            }
        ],
    }
    folder = places.config("crush")
    if places.platform == "win32":
        local = places.environ.get("LOCALAPPDATA") or str(places.home / "AppData/Local")
        folder = places.home / local / "crush"
    chosen = {"model": target.model, "provider": "ingle"}
    settings = [
        ProgramSetting(("$schema",), "https://charm.land/crush.json", unless=has("$schema")),
        ProgramSetting(("providers", "ingle"), provider),
        *(
            ProgramSetting(("models", size), chosen, unless=_has_other_crush_model(size))
            for size in ("large", "small")
        ),
    ]
    return [SettingsFile(folder / "crush.json", "json", settings)]


def _has_other_crush_model(size: str) -> Callable[[object], bool]:
    def has_other(data: object) -> bool:
        return find(data, ("models", size, "provider")) not in (ABSENT, "ingle")

    return has_other


CRUSH = ClientProgram(
    name="crush",
    title="Crush",
    speaks="OpenAI",
    command="crush",
    installed=lambda places: places.has_program("crush") or places.config("crush").is_dir(),
    files=_crush_files,
    stays="Models that you have chosen stay; Ctrl+L selects ingle's.",
    probes=("models", "chat", "chat_tools"),
)
