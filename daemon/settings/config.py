"""The daemon's settings: `config.toml`, then `INGLE_*` variables over it, then flags over both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from ..client.client_errors import UserError
from .paths import Paths, find_paths


class ConfigError(UserError):
    """An invalid setting; the message names its origin."""


class FlagError(ConfigError):
    """An invalid flag of the command line."""

    exit_status = 2


@dataclass(frozen=True)
class Config:
    """All settings, validated; `docs/configuration.md` explains each, in the units used here."""

    paths: Paths
    host: str = "127.0.0.1"
    port: int = 4645
    socket: Path = Path()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allow_lan: bool = False
    allow_plain_lan: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    max_connections: int = 256
    key_rate: str = ""
    key_requests: int = 32
    default_model: str = "smollm2"
    aliases: tuple[tuple[str, str], ...] = ()
    unknown_model: str = ""
    speech_model: str = ""
    picture_urls: bool = False
    offline: bool = False
    import_models: bool = True
    model_folders: tuple[Path, ...] = ()
    context: int = 0
    max_context: int = 0
    max_tokens: int = 0
    default_max_tokens: int = 0
    slots: int = 8
    max_queue: int = 64
    threads: int = 0
    engine: str = "auto"
    engine_index: str = ""
    quantize: Literal["none", "nf4"] = "none"
    gpu_layers: int = -1
    tensor_parallel: int = 1
    tensor_split: tuple[float, ...] = ()
    main_gpu: int = -1
    kv_type: Literal["auto", "f32", "f16", "bf16", "q8_0", "q4_0"] = "auto"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    mmap: bool = True
    mlock: bool = False
    confine: bool = True
    speculation: Literal["auto", "off", "ngram", "draft"] = "auto"
    keep_alive: float = 900.0
    max_keep_alive: float = -1.0
    keep_alives: tuple[tuple[str, float], ...] = ()
    pinned: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    memory_limit: int = 0
    vram_limit: int = 0
    shrink_context: bool = False
    kv_disk: int = 4 * 2**30
    kv_memory: int = 512 * 2**20
    stable_prompts: bool = False
    agent_diet: Literal["off", "slim", "lazy"] = "off"
    agent_diets: tuple[tuple[str, str], ...] = ()
    electricity_price: float = 0.0
    watts: float = 0.0
    keep_chats: float = -1.0
    keep_responses: float = 30 * 86400.0
    keep_batches: float = 30 * 86400.0
    keep_kv: float = 30 * 86400.0
    max_body_bytes: int = 16 * 2**20
    max_upload_bytes: int = 64 * 2**30
    shutdown_grace: float = 10.0
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False

    def __post_init__(self) -> None:
        if self.socket == Path():
            object.__setattr__(self, "socket", self.paths.socket)

    def bounded_context(self, requested: int | None) -> int | None:
        """Return the requested context in tokens, at most `max_context`; None if none was."""
        if requested is None or not self.max_context:
            return requested
        return min(requested, self.max_context)

    def bounded_keep_alive(self, requested: float) -> float:
        """Return the requested keep-alive in seconds, at most `max_keep_alive`; -1 for ever."""
        if self.max_keep_alive < 0:
            return requested
        return self.max_keep_alive if requested < 0 else min(requested, self.max_keep_alive)


def setting_names() -> list[str]:
    """Return every key of the file; the variable is `INGLE_` and the key in upper case."""
    return [field.name for field in fields(Config) if field.name != "paths"]


def variable_name(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"INGLE_{setting.upper()}"


def load_config(
    environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Config:
    """Return the settings in force; `overrides` are flags, of which None counts as not given.

    Raises `ConfigError`, also for unknown keys and `INGLE_*` variables; `INGLE_HOME` and names that
    start with `INGLE_TEST_` are not settings.
    """
    paths = find_paths(environ)
    known = setting_names()
    values: dict[str, object] = {}
    for name, value in _read_file(paths.config_file).items():
        if name not in known:
            raise _unknown(f"'{name}' in {paths.config_file}", name, known)
        values[name] = _parse(name, value, f"'{name}' in {paths.config_file}", textual=False)
    values |= _read_variables(environ)
    for name, value in (overrides or {}).items():
        if name not in known:
            raise _unknown(f"'{name}'", name, known)
        if value is not None:
            flag = "--" + name.replace("_", "-")
            # A relative path from a shell is relative to the working directory.
            absolute = os.path.abspath(str(value)) if name == "socket" else value  # noqa: PTH100
            try:
                values[name] = _parse(name, absolute, flag, textual=isinstance(value, str))
            except ConfigError as error:
                raise FlagError(error.message, error.hint) from None
    return Config(paths=paths, **values)  # pyright: ignore[reportArgumentType]  # parsed above


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", "Make the file readable, or remove it."
        ) from error
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(
            f"{path} is not a TOML file: {error}.",
            'A line is a key, an equals sign and a value: default_model = "smollm2".',
        ) from error


def _read_variables(environ: Mapping[str, str]) -> dict[str, object]:
    settings = {variable_name(name): name for name in setting_names()}
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith("INGLE_") or variable.startswith("INGLE_TEST_"):
            continue
        if variable in settings:
            name = settings[variable]
            values[name] = _parse(name, text, variable, textual=True)
        elif variable != "INGLE_HOME":
            raise _unknown(f"The variable {variable}", variable, [*settings, "INGLE_HOME"])
    return values


def _parse(name: str, value: object, origin: str, *, textual: bool) -> object:
    # Most users set nothing; then these patterns need not be compiled before the first frame.
    from .setting_parsers import PARSERS, InvalidSetting

    try:
        return PARSERS[name](value, textual)
    except InvalidSetting as error:
        raise ConfigError(
            f"{origin} must be {error.expected}, not {value!r}.", error.hint
        ) from None


def _unknown(what: str, name: str, known: list[str]) -> ConfigError:
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1)
    hint = f"Did you mean '{nearest[0]}'?" if nearest else f"Known settings: {', '.join(known)}."
    return ConfigError(f"{what} is not a setting of ingle.", hint)
