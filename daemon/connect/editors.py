"""Editors and plugins: Continue, Zed, VS Code, Cline, JetBrains, llama.vim, Open WebUI."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from ..config_editing.block_document import BLOCK
from ..config_editing.document_path import DocumentItem
from .client_program import ClientProgram
from .connect_target import ConnectTarget, ProgramFolders
from .settings_file import ProgramSetting, SettingsFile, has


def _continue_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    model = {
        "name": "ingle",
        "provider": "openai",
        "model": target.model,
        "apiBase": target.openai_url,
        "apiKey": target.word,
        "roles": ["chat", "edit", "apply", "autocomplete"],
        "capabilities": ["tool_use"],
        "defaultCompletionOptions": {
            "contextLength": target.context,
            "maxTokens": target.answer_tokens,
        },
    }
    path = places.named("CONTINUE_GLOBAL_DIR", ".continue") / "config.yaml"
    settings = [
        *(
            ProgramSetting((key,), value, unless=has(key))
            for key, value in (("name", "Local"), ("version", "1.0.0"), ("schema", "v1"))
        ),
        ProgramSetting(("models", DocumentItem("name", "ingle")), model),
    ]
    return [SettingsFile(path, "yaml", settings)]


CONTINUE = ClientProgram(
    name="continue",
    title="Continue (VS Code, JetBrains, cn)",
    aliases=("cn",),
    speaks="OpenAI",
    installed=lambda places: (
        places.has_program("cn")
        or places.has_extension("continue.continue")
        or (places.home / ".continue").is_dir()
    ),
    files=_continue_files,
    notes=lambda target: ["Choose 'ingle' in the model menu of Continue."],
    probes=("models", "chat", "chat_tools", "completion"),
    tokens=2_000,
)


def _zed_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    if places.platform == "win32":
        path = places.application("Zed") / "settings.json"
    elif places.platform == "darwin":
        path = places.home / ".config/zed/settings.json"
    else:
        path = places.config("zed") / "settings.json"
    setting = ProgramSetting(("language_models", "ollama", "api_url"), target.url)
    return [SettingsFile(path, "json", [setting])]


def _zed_notes(target: ConnectTarget) -> list[str]:
    notes = [f"In Zed's agent panel choose '{target.model}' below Ollama; it finds all models."]
    if target.key:
        notes.append(
            "Zed keeps keys in the system's keychain: enter this one in Agent Settings > LLM "
            f"Providers > Ollama, or start Zed with OLLAMA_API_KEY={target.key}"
        )
    return notes


ZED = ClientProgram(
    name="zed",
    title="Zed",
    speaks="Ollama",
    installed=lambda places: (
        any(map(places.has_program, ("zed", "zeditor", "zedit")))
        or places.config("zed").is_dir()
        or Path("/Applications/Zed.app").is_dir()
    ),
    files=_zed_files,
    notes=_zed_notes,
    probes=("ollama_models", "ollama_chat", "ollama_tools"),
    tokens=4_000,
    takes_key=False,
)


def _vscode_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    entry: dict[str, object] = {"name": "ingle", "vendor": "ollama", "url": target.url}
    if target.key:
        # The Ollama provider sends no key; the custom endpoint does, but its models must be listed.
        model = {
            "id": target.model,
            "name": target.model,
            "url": f"{target.openai_url}/chat/completions",
            "toolCalling": True,
            "vision": False,
            "maxInputTokens": target.context - target.answer_tokens,
            "maxOutputTokens": target.answer_tokens,
        }
        entry = {
            "name": "ingle",
            "vendor": "customendpoint",
            "apiKey": target.key,
            "apiType": "chat-completions",
            "models": [model],
        }
    path = _vscode(places) / "User/chatLanguageModels.json"
    return [SettingsFile(path, "json", [ProgramSetting((DocumentItem("name", "ingle"),), entry)])]


def _vscode(places: ProgramFolders) -> Path:
    """Return the folder of VS Code, or of its Insiders edition if only that is installed."""
    stable, preview = places.application("Code"), places.application("Code - Insiders")
    return preview if preview.is_dir() and not stable.is_dir() else stable


VSCODE = ClientProgram(
    name="vscode",
    title="VS Code (Copilot Chat, own models)",
    aliases=("copilot", "code", "vs-code"),
    speaks="Ollama, OpenAI",
    installed=lambda places: places.has_program("code") or _vscode(places).is_dir(),
    files=_vscode_files,
    notes=lambda target: [
        "VS Code 1.122 or newer reads this file. Where the models are not in Copilot Chat's model "
        "menu, run `Chat: Manage Language Models` and tick them there; restart VS Code if need be."
    ],
    probes=("ollama_models", "chat", "chat_tools"),
    tokens=8_000,
)


def _cline_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    if explicit := places.environ.get("CLINE_PROVIDER_SETTINGS_PATH"):
        path = Path(explicit)
    else:
        path = places.named("CLINE_DATA_DIR", ".cline/data") / "settings/providers.json"
    ours = {
        "provider": "ollama",
        "baseUrl": target.url,
        "model": target.model,
        "contextWindow": target.context,
        **({"apiKey": target.key} if target.key else {}),
    }
    entry = ("providers", "ollama")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    settings = [
        ProgramSetting(("version",), 1, unless=has("version")),
        ProgramSetting(("lastUsedProvider",), "ollama"),
        ProgramSetting(("modes",), {}, unless=has("modes")),
        ProgramSetting((*entry, "settings"), ours),
        ProgramSetting((*entry, "updatedAt"), now, unless=has(*entry, "updatedAt")),
        ProgramSetting((*entry, "tokenSource"), "manual", unless=has(*entry, "tokenSource")),
    ]
    return [SettingsFile(path, "json", settings)]


CLINE = ClientProgram(
    name="cline",
    title="Cline (VS Code, command line)",
    command="cline",
    speaks="Ollama",
    installed=lambda places: (
        places.has_program("cline")
        or places.has_extension("saoudrizwan.claude-dev")
        or (places.home / ".cline").is_dir()
    ),
    files=_cline_files,
    notes=lambda target: [
        "The file is that of Cline's command line. In the extension: settings (the gear), API "
        f"Provider 'Ollama', custom base URL {target.url}, model {target.model}, "
        f"Model Context Window {target.context}."
    ],
    probes=("ollama_models", "ollama_chat", "ollama_tools"),
    tokens=12_000,
    names_folder=True,
)

JETBRAINS = ClientProgram(
    name="jetbrains",
    title="JetBrains AI Assistant",
    aliases=("intellij", "pycharm"),
    speaks="Ollama, OpenAI",
    installed=lambda places: (
        places.application("JetBrains").is_dir()
        or any(map(places.has_program, ("idea", "pycharm", "webstorm", "goland", "rustrover")))
    ),
    notes=lambda target: [
        "JetBrains keeps this in its own storage, so it has to be entered there:",
        "1. Settings > Tools > AI Assistant > Providers & API keys",
        f"2. Third-party AI providers: OpenAI-compatible, URL {target.openai_url}, "
        f"API key {target.word}, tool calling on; then Test Connection",
        f"   (or Ollama, with the URL {target.url})",
        f"3. below, choose '{target.model}' for chat and for completion",
    ],
    probes=("models", "chat", "chat_tools", "ollama_models"),
    tokens=4_000,
)


def _vim_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    values = {
        "endpoint_fim": f"{target.url}/infill",
        "endpoint_inst": f"{target.openai_url}/chat/completions",
        "model_fim": target.model,
        "model_inst": target.model,
        **({"api_key": target.key} if target.key else {}),
    }
    path, form = _vim_file(places)
    if form == "lua":
        lines = [f"  {key} = {json.dumps(value)}," for key, value in values.items()]
        ours = "vim.g.llama_config = {"
        text = "\n".join([ours, *lines, "}"])
    else:
        lines = [f"  \\ '{key}': '{value}'," for key, value in values.items()]
        ours = "let g:llama_config = {"
        text = "\n".join([ours, *lines, "  \\ }"])
    return [SettingsFile(path, form, [ProgramSetting((BLOCK,), text)])]


def _vim_file(places: ProgramFolders) -> tuple[Path, str]:
    """Return the path and format of the first file that vim reads: neovim's if that is
    installed.
    """
    neovim = places.config("nvim")
    if (neovim / "init.lua").exists():
        return neovim / "init.lua", "lua"
    if (neovim / "init.vim").exists() or (
        places.has_program("nvim") and not (places.home / ".vimrc").exists()
    ):
        return neovim / "init.vim", "vim"
    return places.home / ".vimrc", "vim"


LLAMA_VIM = ClientProgram(
    name="llama.vim",
    title="llama.vim (vim, neovim)",
    aliases=("vim", "nvim", "neovim", "llamavim", "llama-vim"),
    speaks="llama.cpp",
    installed=lambda places: (
        any(map(places.has_program, ("vim", "nvim"))) or places.config("nvim").is_dir()
    ),
    files=_vim_files,
    notes=lambda target: [
        "The plugin itself is ggml-org/llama.vim. If your own file sets `g:llama_config` further "
        "down, that one wins: put the endpoints there."
    ],
    probes=("infill", "chat"),
)

OPEN_WEBUI = ClientProgram(
    name="open-webui",
    title="Open WebUI",
    aliases=("webui", "openwebui"),
    speaks="OpenAI, Ollama",
    installed=lambda places: places.has_program("open-webui"),
    exports=lambda target: [
        ("ENABLE_OLLAMA_API", "true"),
        ("OLLAMA_BASE_URL", target.url),
        ("ENABLE_OPENAI_API", "true"),
        ("OPENAI_API_BASE_URL", target.openai_url),
        ("OPENAI_API_KEY", target.word),
    ],
    notes=lambda target: [
        "Open WebUI reads these variables at its first start only. Later: Admin Panel > Settings > "
        f"Connections, OpenAI API: {target.openai_url}, key {target.word}.",
        "In a container it reaches ingle only with the host's network (`--network=host`), and as "
        "another user, who needs a key: `ingle connect open-webui --key`.",
    ],
    probes=("models", "chat", "ollama_models"),
    codes=False,
)
