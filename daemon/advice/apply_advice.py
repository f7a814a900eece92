"""Writes advice into `config.toml`, keeping its other lines and comments."""

from __future__ import annotations

import tomllib

from ingle.backends.advice.advise import Option
from ingle.backends.registry.engines import all_engines

from ..config_editing.document_path import CannotEdit
from ..config_editing.toml_document import TOMLDocument
from ..settings.config import Config, ConfigError
from ..stores.atomic_file import write_atomically


def apply_advice(option: Option, config: Config) -> dict[str, object]:
    """Write the option into the settings as the default; return what was written.

    Raises `ConfigError` if the file cannot be changed; it is unchanged then.
    """
    path = config.paths.config_file
    settings = settings_of(option, config)
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for name, value in settings.items():
            text = TOMLDocument(text).changed((name,), value)
        written = tomllib.loads(text)
    except (CannotEdit, ValueError, OSError) as error:
        raise _refusal(config, str(error)) from error
    if any(written.get(name) != value for name, value in settings.items()):
        raise _refusal(config, "a setting is written in a way that ingle does not change")
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise _refusal(config, str(error.strerror)) from error
    return settings


def settings_of(option: Option, config: Config) -> dict[str, object]:
    """Return the settings with which ingle loads the option as advised."""
    settings: dict[str, object] = {
        "default_model": option.model,
        "context": option.context,
        "kv_type": str(option.kv_type),
    }
    if option.quantize != config.quantize:
        settings["quantize"] = option.quantize
    engine = next(each.name for each in all_engines() if each.label == option.engine)
    if config.engine not in ("auto", engine):
        settings["engine"] = "auto"
    if config.gpu_layers == 0 and option.device == "gpu":
        settings["gpu_layers"] = -1
    return settings


def _refusal(config: Config, reason: str) -> ConfigError:
    return ConfigError(
        f"{config.paths.config_file} was not changed: {reason.rstrip('.')}.",
        "Write the settings into it by hand; `ingle advise --json` has them.",
    )
