"""`ingle load`: loads a model before it is needed, and sets how long it stays loaded."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from textwrap import fill
from typing import cast

from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType

from ...client.api_types import LoadedModel
from ...client.sync_client import JsonObject
from ...settings.config import load_config
from ...settings.setting_parsers import QUANTIZE, InvalidSetting, parse_duration
from ...terminal.terminal_output import (
    format_bytes,
    format_seconds,
    print_json,
    print_status,
    strip_control_characters,
)
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference
from ..progress_report import ProgressReport

EXAMPLES = """\
  ingle load smollm2 --keep-alive 2h
  ingle load qwen2.5-coder --context 32768 --pin
  ingle load qwen2.5-coder --no-pin"""


def main(arguments: Sequence[str]) -> int:
    """Load one model, or change its keep-alive; raises `CommandError`."""
    options = _parser().parse_args(arguments)
    config = load_config(os.environ)
    client = ensure_daemon(config)
    reference = sendable_reference(options.model or config.default_model)
    report = ProgressReport()
    report.show_loading(reference)
    try:
        answer = client.post("/ingle/v1/load", _body(options, reference), timeout=None)
    finally:
        report.erase()
    loaded = cast("LoadedModel", answer)
    if options.json:
        print_json(loaded)
        return 0
    print(strip_control_characters(_told(loaded)))
    for warning in loaded["warnings"]:
        print_status(f"Warning: {warning}")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "load",
        "Load a model before it is needed. For a loaded model, the keep-alive and pin\n"
        "are changed; a different context, engine or KV type restarts it.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="(default: the configured one)")
    parser.add_argument("--context", type=_count, metavar="N", help="tokens of context")
    parser.add_argument(
        "--keep-alive",
        type=_duration,
        metavar="TIME",
        help='how long it stays after its last use, such as 90, 15m, 2h or "forever"',
    )
    parser.add_argument(
        "--pin",
        action=BooleanOptionalAction,
        help="never unload it automatically, neither after a time nor for another model",
    )
    parser.add_argument("--engine", choices=engine_choices(), help="what computes")
    parser.add_argument("--quantize", choices=QUANTIZE, help="four bits for plain weights")
    parser.add_argument("--kv-type", choices=tuple(KVType), help="how the KV cache is stored")
    parser.add_json()
    return parser


def _body(options: Namespace, model: str) -> JsonObject:
    names = ("context", "keep_alive", "pin", "engine", "quantize", "kv_type")
    given = {name: getattr(options, name) for name in names}
    return {"model": model, **{name: value for name, value in given.items() if value is not None}}


def _told(loaded: LoadedModel) -> str:
    memory = loaded["memory"]
    held = memory["measured"]["host"] + memory["measured"]["gpu"] + memory["mapped"]
    stays = "is pinned" if loaded["pinned"] else _stays(loaded["expires_in"])
    text = (
        f"{loaded['name']} is ready on {loaded['device']}, with a context of "
        f"{loaded['context']} tokens and {format_bytes(held)} of memory, and {stays}. "
    )
    return fill(text + loaded["reason"], 80, break_long_words=False, break_on_hyphens=False)


def _stays(seconds: float | None) -> str:
    if seconds is None:
        return "stays loaded until it is unloaded"
    if seconds <= 0:
        return "is unloaded as soon as it is idle"
    return f"stays loaded for {format_seconds(seconds)} without use"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) < 2**31):
        raise ArgumentTypeError(f"it must be a whole number, 1 or more, not '{text}'")
    return int(text)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except InvalidSetting as error:
        raise ArgumentTypeError(f"it must be {error.expected}, not '{text}'") from None
