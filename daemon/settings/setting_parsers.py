"""One parser per kind of setting: from a TOML value, or from the text of a variable or flag."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType
from ingle.models.parallel.share import MOST_RANKS

from .alias_rules import find_cycle, is_pattern

Parser = Callable[[object, bool], object]
"""Takes the value, and whether it may be text to parse; raises `InvalidSetting`."""

FOREVER = -1.0
"""The `keep_alive` that never ends."""

QUANTIZE = ("none", "nf4")
SPECULATION = ("auto", "off", "ngram", "draft")
FLASH_ATTENTION = ("auto", "on", "off")
AGENT_DIETS = ("off", "slim", "lazy")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_SIZES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_HOST_NAME = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+|\[[0-9a-f:.]+\]")
# Schemes of web pages need a host; programs such as VS Code make up one for each of their windows.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^\s/?#@*]+|(?<!http://)(?<!https://)\*)")


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


def _number(high: float) -> Parser:
    def parse(value: object, textual: bool) -> float:
        if (
            textual
            and isinstance(value, str)
            and re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]{1,9})?\s*", value)
        ):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= high:
            return float(value)
        raise InvalidSetting(f"a number from 0 to {high:g}")

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


def _list(value: object, textual: bool, expected: str, separator: str = ",") -> list[object]:
    """Return the items of a list, or of text with separators if that is allowed."""
    if textual and isinstance(value, str):
        return [part for part in value.split(separator) if part.strip()]
    if isinstance(value, list | tuple):
        return list(cast("list[object]", value))
    raise InvalidSetting(expected)


def _shares(value: object, textual: bool) -> tuple[float, ...]:
    expected = "a list of shares such as [3, 1], one for each GPU"
    number = _number(10**6)
    shares = _list(value, textual, expected)
    try:
        return tuple(cast("float", number(share, textual)) for share in shares)
    except InvalidSetting:
        raise InvalidSetting(expected) from None


def _folders(value: object, textual: bool) -> tuple[Path, ...]:
    """Parse absolute paths; in a variable they are separated as in PATH."""
    expected = 'a list of folders such as ["~/models"]'
    folders: list[Path] = []
    for folder in _list(value, textual, expected, os.pathsep):
        path = Path(folder).expanduser() if isinstance(folder, str | Path) else Path()
        if not path.is_absolute():
            raise InvalidSetting(expected, "Write absolute paths.")
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


def _names(expected: str, pattern: re.Pattern[str], hint: str) -> Parser:
    def parse(value: object, textual: bool) -> tuple[str, ...]:
        names = _list(value, textual, f"a list of {expected}")
        found = [name.strip().lower() for name in names if isinstance(name, str)]
        if len(found) < len(names) or not all(map(pattern.fullmatch, found)):
            raise InvalidSetting(f"a list of {expected}", hint)
        return tuple(found)

    return parse


def _models(value: object, textual: bool) -> tuple[str, ...]:
    expected = 'a list of models such as ["smollm2"]'
    values = _list(value, textual, expected)
    names = [name.strip() for name in values if isinstance(name, str)]
    if len(names) < len(values) or not all(names):
        raise InvalidSetting(expected)
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


def _table(value: object, textual: bool, expected: str, pairs: str) -> list[tuple[str, object]]:
    """Return the rows of a table, or of text such as "a=1,b=2" if that is allowed; names stripped.

    `expected` describes a table, and `pairs` such text.
    """
    if textual and isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(equals for _, equals, _ in parts):
            raise InvalidSetting(pairs)
        value = [(name, target) for name, _, target in parts]
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).items())
    if not isinstance(value, list | tuple):
        raise InvalidSetting(expected)
    rows: list[tuple[str, object]] = []
    for name, target in cast("list[tuple[object, object]]", value):
        if isinstance(target, dict):
            raise InvalidSetting(expected, f'A name with a dot needs quotes: "{name}.…" = …')
        if not isinstance(name, str) or not name.strip():
            raise InvalidSetting(expected)
        rows.append((name.strip(), target))
    return rows


def _aliases(value: object, textual: bool) -> tuple[tuple[str, str], ...]:
    expected = 'a table of names such as "gpt-4o" = "smollm2"'
    pairs = 'pairs such as "gpt-4o=smollm2,claude-*=smollm2"'
    aliases: list[tuple[str, str]] = []
    for alias, target in _table(value, textual, expected, pairs):
        if not isinstance(target, str) or not target.strip() or is_pattern(target):
            raise InvalidSetting(
                "a table that maps each name to the name of a model",
                "A name such as `claude-*` may have wildcards; its target may not.",
            )
        aliases.append((alias, target.strip()))
    if cycle := find_cycle(aliases):
        raise InvalidSetting("a table without cycles", " → ".join(cycle) + " is a cycle.")
    return tuple(aliases)


def _keep_alives(value: object, textual: bool) -> tuple[tuple[str, float], ...]:
    expected = 'a table of durations such as "smollm2" = "1h"'
    seconds = _seconds(forever=True)
    rows = _table(value, textual, expected, expected)
    return tuple((name, cast("float", seconds(duration, textual))) for name, duration in rows)


def _agent_diets(value: object, textual: bool) -> tuple[tuple[str, str], ...]:
    expected = 'a table such as "qwen2.5-coder:1.5b" = "slim"; for a key: "key:NAME" = "off"'
    choose = _choice(AGENT_DIETS)
    rows = _table(value, textual, expected, expected)
    return tuple((name, cast("str", choose(diet, textual))) for name, diet in rows)


def _choice(choices: tuple[str, ...]) -> Parser:
    def parse(value: object, textual: bool) -> str:
        if isinstance(value, str) and (chosen := value.strip().lower()) in choices:
            return chosen
        raise InvalidSetting("one of " + ", ".join(choices))

    return parse


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
    "allowed_origins": _names(
        'origins such as "http://localhost:3000"',
        _ORIGIN,
        "An origin is a scheme, a host and a port, without a path; '*' would let any web page use "
        "your models, and stands only for the hosts of a program's own scheme: vscode-webview://*.",
    ),
    "allowed_hosts": _names(
        'names such as ["gpu.lan", "192.168.1.5", "[fd00::5]"]',
        _HOST_NAME,
        "Write them as clients use them, without a port and without wildcards.",
    ),
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
    "speech_model": _optional_text,
    "picture_urls": _flag,
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
    "engine": lambda value, textual: _choice(engine_choices())(value, textual),
    "engine_index": _optional_text,
    "quantize": _choice(QUANTIZE),
    "gpu_layers": _integer(-1, 10_000),
    "tensor_parallel": _integer(1, MOST_RANKS),
    "tensor_split": _shares,
    "main_gpu": _integer(-1, 63),
    "kv_type": _choice(("auto", *KVType)),
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
    "stable_prompts": _flag,
    "agent_diet": _choice(AGENT_DIETS),
    "agent_diets": _agent_diets,
    "electricity_price": _number(1000),
    "watts": _number(100_000),
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
