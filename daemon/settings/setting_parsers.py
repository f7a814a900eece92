"""One parser per kind of setting: from a TOML value, or from the text of a variable or flag."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType

from .alias_rules import find_cycle, is_pattern

Parser = Callable[[object, bool], object]
"""Takes the value, and whether it may be text to parse; raises `InvalidSetting`."""

FOREVER = -1.0
"""The `keep_alive` that never ends."""

QUANTIZE = ("none", "nf4")
SPECULATION = ("auto", "off", "ngram", "draft")
FLASH_ATTENTION = ("auto", "on", "off")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_SIZES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_HOST_NAME = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+")


class InvalidSetting(ValueError):
    """A value of the wrong type or out of range; `expected` completes "it must be …"."""

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint


def parse_duration(text: str) -> float:
    """Return the seconds of "90", "15m", "1h30m" or "250ms"; "forever" and "-1" are -1.

    Raises `InvalidSetting`.
    """
    text = text.strip().lower()
    if text in {"forever", "-1"}:
        return FOREVER
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    if _DURATION.fullmatch(text):
        return sum(float(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(text))
    raise InvalidSetting('a duration such as 90, "15m", "1h30m" or "forever"')


def parse_size(text: str) -> int:
    """Return the bytes of "1048576", "64MiB" or "10 MB"; raises `InvalidSetting`."""
    text = text.strip().lower()
    if text.isdecimal():
        return int(text)
    if (match := _SIZE.fullmatch(text)) and match[2] in _SIZES:
        return int(float(match[1]) * _SIZES[match[2]])
    raise InvalidSetting('a size such as 1048576, "64MiB" or "10MB"')


def _integer(low: int, high: int) -> Parser:
    def parse(value: object, textual: bool) -> int:
        if textual and isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise InvalidSetting(f"a whole number from {low} to {high}")

    return parse


def _seconds(*, forever: bool) -> Parser:
    expected = 'seconds, or a duration such as "15m"' + (' or "forever"' if forever else "")

    def parse(value: object, textual: bool) -> float:
        if isinstance(value, str):
            value = parse_duration(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if 0 <= value < 10**9:
                return float(value)
            if forever and value == FOREVER:
                return FOREVER
        raise InvalidSetting(expected)

    return parse


def _size(low: int) -> Parser:
    def parse(value: object, textual: bool) -> int:
        if isinstance(value, str):
            value = parse_size(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**40:
            return value
        raise InvalidSetting(f'a size of at least {low} bytes, such as 67108864 or "64MiB"')

    return parse


def _text(value: object, textual: bool) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise InvalidSetting("text that is not empty")


def _optional_text(value: object, textual: bool) -> str:
    if isinstance(value, str):
        return value.strip()
    raise InvalidSetting("text")


def _path(value: object, textual: bool) -> Path:
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str) and value:
        path = Path(value).expanduser()
        if path.is_absolute():
            if len(str(path).encode(errors="surrogateescape")) > 103:
                raise InvalidSetting(
                    "a path of at most 103 bytes",
                    "The system does not allow longer paths for unix sockets.",
                )
            return path
    raise InvalidSetting("an absolute path")


def _folders(value: object, textual: bool) -> tuple[Path, ...]:
    """Parse absolute paths; in a variable they are separated as in PATH."""
    if textual and isinstance(value, str):
        value = [part for part in value.split(os.pathsep) if part.strip()]
    if not isinstance(value, list | tuple):
        raise InvalidSetting('a list of folders such as ["~/models"]')
    folders: list[Path] = []
    for folder in cast("list[object]", value):
        path = Path(folder).expanduser() if isinstance(folder, str | Path) else Path()
        if not path.is_absolute():
            raise InvalidSetting('a list of folders such as ["~/models"]', "Write absolute paths.")
        folders.append(path)
    return tuple(folders)


def _host(value: object, textual: bool) -> str:
    if isinstance(value, str) and value.strip().lower() == "localhost":
        return "127.0.0.1"
    try:
        if isinstance(value, str):
            from ipaddress import ip_address

            return str(ip_address(value.strip().removeprefix("[").removesuffix("]")))
    except ValueError:
        pass  # reported below
    raise InvalidSetting(
        "an address of this machine, such as 127.0.0.1",
        "A name could resolve to any address; 127.0.0.1 is reachable from this machine only.",
    )


def _host_names(value: object, textual: bool) -> tuple[str, ...]:
    if textual and isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise InvalidSetting('a list of names such as ["gpu.lan"]')
    names: list[str] = []
    for name in cast("list[object]", value):
        if not isinstance(name, str) or not _HOST_NAME.fullmatch(name.strip().lower()):
            raise InvalidSetting(
                'a list of names such as ["gpu.lan", "192.168.1.5", "[fd00::5]"]',
                "Write them as clients use them, without a port and without wildcards.",
            )
        names.append(name.strip().lower())
    return tuple(names)


def _optional_path(value: object, textual: bool) -> str:
    if isinstance(value, str | Path) and not str(value):
        return ""
    if isinstance(value, str | Path) and (path := Path(value).expanduser()).is_absolute():
        return str(path)
    raise InvalidSetting("an absolute path")


def _rate(value: object, textual: bool) -> str:
    if isinstance(value, str) and re.fullmatch(r"(|[1-9][0-9]{0,5}/[smhd])", value.strip().lower()):
        return value.strip().lower()
    raise InvalidSetting('a rate such as "60/m", or empty for none')


def _origins(value: object, textual: bool) -> tuple[str, ...]:
    if textual and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise InvalidSetting('a list of origins such as ["http://localhost:3000"]')
    origins: list[str] = []
    for origin in value:  # pyright: ignore[reportUnknownVariableType]  # checked one by one
        if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin.lower()):
            raise InvalidSetting(
                'a list of origins such as "http://localhost:3000"',
                "An origin is a scheme, a host and a port, without a path; '*' would let any "
                "web page use your models.",
            )
        origins.append(origin.lower())
    return tuple(origins)


def _aliases(value: object, textual: bool) -> tuple[tuple[str, str], ...]:
    pairs = _pairs(value) if textual and isinstance(value, str) else value
    if isinstance(pairs, dict):
        pairs = list(cast("dict[object, object]", pairs).items())
    if not isinstance(pairs, list | tuple):
        raise InvalidSetting('a table of names such as "gpt-4o" = "smollm2"')
    aliases: list[tuple[str, str]] = []
    for alias, target in cast("list[tuple[object, object]]", pairs):
        if isinstance(target, dict):
            raise InvalidSetting(
                "a table of names", f'A name with a dot needs quotes: "{alias}.…" = "smollm2".'
            )
        if not (isinstance(alias, str) and isinstance(target, str)):
            raise InvalidSetting("a table that maps each name to the name of a model")
        alias, target = alias.strip(), target.strip()
        if not alias or not target or is_pattern(target):
            raise InvalidSetting(
                "a table that maps each name to the name of a model",
                "A name such as `claude-*` may have wildcards; its target may not.",
            )
        aliases.append((alias, target))
    if cycle := find_cycle(aliases):
        raise InvalidSetting("a table without cycles", " → ".join(cycle) + " is a cycle.")
    return tuple(aliases)


def _keep_alives(value: object, textual: bool) -> tuple[tuple[str, float], ...]:
    expected = 'a table of durations such as "smollm2" = "1h"'
    pairs = _pairs(value, expected) if textual and isinstance(value, str) else value
    if isinstance(pairs, dict):
        pairs = list(cast("dict[object, object]", pairs).items())
    if not isinstance(pairs, list | tuple):
        raise InvalidSetting(expected)
    read = _seconds(forever=True)
    found: list[tuple[str, float]] = []
    for name, duration in cast("list[tuple[object, object]]", pairs):
        if isinstance(duration, dict):
            raise InvalidSetting(expected, f'A name with a dot needs quotes: "{name}.…" = "1h".')
        if not isinstance(name, str) or not name.strip():
            raise InvalidSetting(expected)
        found.append((name.strip(), cast("float", read(duration, textual))))
    return tuple(found)


def _models(value: object, textual: bool) -> tuple[str, ...]:
    if textual and isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise InvalidSetting('a list of models such as ["smollm2"]')
    names = [name.strip() for name in cast("list[object]", value) if isinstance(name, str)]
    if len(names) < len(cast("list[object]", value)) or not all(names):
        raise InvalidSetting('a list of models such as ["smollm2"]')
    return tuple(names)


def _pairs(
    text: str, expected: str = 'pairs such as "gpt-4o=smollm2,claude-*=smollm2"'
) -> list[tuple[str, str]]:
    """Split "gpt-4o=smollm2,claude-*=smollm2" into pairs."""
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        alias, equals, target = part.partition("=")
        if equals:
            pairs.append((alias, target))
        elif part.strip():
            raise InvalidSetting(expected)
    return pairs


def _choice(choices: tuple[str, ...]) -> Parser:
    def parse(value: object, textual: bool) -> str:
        if isinstance(value, str) and (chosen := value.strip().lower()) in choices:
            return chosen
        raise InvalidSetting("one of " + ", ".join(choices))

    return parse


def _parse_engine(value: object, textual: bool) -> object:
    return _choice(engine_choices())(value, textual)


def _flag(value: object, textual: bool) -> bool:
    if textual and isinstance(value, str):
        value = _FLAGS.get(value.strip().lower())
    if isinstance(value, bool):
        return value
    raise InvalidSetting("true or false")


PARSERS: Mapping[str, Parser] = {
    "host": _host,
    "port": _integer(-1, 65535),
    "socket": _path,
    "allowed_origins": _origins,
    "allowed_hosts": _host_names,
    "allow_lan": _flag,
    "allow_plain_lan": _flag,
    "tls_cert": _optional_path,
    "tls_key": _optional_path,
    "max_connections": _integer(8, 65536),
    "key_rate": _rate,
    "key_requests": _integer(0, 65536),
    "default_model": _text,
    "aliases": _aliases,
    "unknown_model": _optional_text,
    "offline": _flag,
    "import_models": _flag,
    "model_folders": _folders,
    "context": _integer(0, 2**24),
    "max_context": _integer(0, 2**24),
    "max_tokens": _integer(0, 2**24),
    "default_max_tokens": _integer(0, 2**24),
    "slots": _integer(1, 256),
    "max_queue": _integer(0, 100_000),
    "threads": _integer(0, 1024),
    "engine": _parse_engine,
    "quantize": _choice(QUANTIZE),
    "gpu_layers": _integer(-1, 10_000),
    "kv_type": _choice(tuple(KVType)),
    "flash_attention": _choice(FLASH_ATTENTION),
    "mmap": _flag,
    "mlock": _flag,
    "confine": _flag,
    "speculation": _choice(SPECULATION),
    "keep_alive": _seconds(forever=True),
    "max_keep_alive": _seconds(forever=True),
    "keep_alives": _keep_alives,
    "pinned": _models,
    "preload": _models,
    "memory_limit": _size(0),
    "vram_limit": _size(0),
    "shrink_context": _flag,
    "kv_disk": _size(0),
    "kv_memory": _size(0),
    "keep_chats": _seconds(forever=True),
    "keep_responses": _seconds(forever=True),
    "keep_batches": _seconds(forever=True),
    "keep_kv": _seconds(forever=True),
    "max_body_bytes": _size(1024),
    "max_upload_bytes": _size(1024),
    "shutdown_grace": _seconds(forever=False),
    "log_level": _choice(LOG_LEVELS),
    "log_format": _choice(LOG_FORMATS),
    "access_log": _flag,
}
