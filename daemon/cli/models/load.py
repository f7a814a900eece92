"""`ingle load`: loads a model before it is needed, and sets how long it stays loaded."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType

from ...settings.config import load_config
from ...settings.setting_parsers import QUANTIZE, InvalidSetting, parse_duration
from ...terminal.terminal_output import (
    format_bytes,
    format_seconds,
    print_json,
    print_status,
    print_text,
)
from ..command_parser import CommandParser, given
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference
from ..progress_report import ProgressReport

if TYPE_CHECKING:
    from ...client.model_types import LoadedModel
    from ...client.sync_client import DaemonClient

EXAMPLES = """\
  ingle load smollm2 --keep-alive 2h
  ingle load qwen2.5-coder --context 32768 --pin
  ingle load qwen2.5-coder --no-pin"""
LOAD_OPTIONS = ("context", "engine", "quantize", "tensor_parallel", "kv_type")
"""The options that `add_load_options` adds, as the API names them."""


def main(arguments: Sequence[str]) -> int:
    """Load one model, or change its keep-alive; raises `CommandError`."""
    options = _parser().parse_args(arguments)
    config = load_config(os.environ)
    client = ensure_daemon(config)
    reference = sendable_reference(options.model or config.default_model)
    loaded = load_model(client, reference, given(options, "keep_alive", "pin", *LOAD_OPTIONS))
    if options.json:
        print_json(loaded)
        return 0
    print_text(_summary(loaded))
    print_warnings(loaded)
    return 0


def load_model(client: DaemonClient, reference: str, options: dict[str, Any]) -> LoadedModel:
    """Load the model, and show in a terminal that it is loading; raises `CommandError`."""
    from ...client.model_types import LoadedModel

    with ProgressReport() as report:
        report.show_loading(reference)
        body = {"model": reference, **options}
        return client.post("/ingle/v1/load", body, LoadedModel, timeout=None)


def print_warnings(loaded: LoadedModel) -> None:
    """Print warnings about options that could not be met."""
    for warning in loaded.warnings:
        print_status(f"Warning: {warning}")


def add_load_options(parser: CommandParser) -> None:
    """Add the options that decide how a model is loaded."""
    parser.add_number("--context", 1, help="load it with N tokens of context")
    parser.add_argument(
        "--engine", choices=engine_choices(), help="what computes: ingle's own engine, or llama.cpp"
    )
    parser.add_argument(
        "--quantize", choices=QUANTIZE, help="quantise plain weights to four bits on load"
    )
    parser.add_number("--tensor-parallel", 1, help="divide it among N GPUs (ingle's own engine)")
    parser.add_argument("--kv-type", choices=tuple(KVType), help="how the KV cache is stored")


def _parser() -> CommandParser:
    parser = CommandParser(
        "load",
        "Load a model before it is needed. For a loaded model, the keep-alive and pin\n"
        "are changed; a different context, engine or KV type restarts it.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="the model (default: the configured one)"
    )
    parser.add_argument(
        "--keep-alive",
        type=_duration,
        metavar="TIME",
        help='how long it stays after its last use, such as 90, 15m, 2h or "forever"',
    )
    pin = parser.add_mutually_exclusive_group()
    pin.add_argument(
        "--pin",
        action="store_true",
        default=None,
        help="never unload it automatically, neither after a time nor for another model",
    )
    pin.add_argument("--no-pin", dest="pin", action="store_false", help="undo --pin")
    add_load_options(parser)
    return parser


def _summary(loaded: LoadedModel) -> str:
    stays = "is pinned" if loaded.pinned else _stays(loaded.expires_in)
    text = (
        f"{loaded.name} is ready on {loaded.device}, with a context of "
        f"{loaded.context} tokens (KV cache: {loaded.kv_type}, {format_bytes(loaded.kv_bytes)}) "
        f"and {format_bytes(loaded.memory.held)} of memory, and {stays}. "
    )
    if loaded.longest_context > loaded.context:
        text += (
            f"A longer prompt reloads it with up to {loaded.longest_context} tokens of context. "
        )
    return fill(text + loaded.reason, 80, break_long_words=False, break_on_hyphens=False)


def _stays(seconds: float | None) -> str:
    if seconds is None:
        return "stays loaded until it is unloaded"
    if seconds <= 0:
        return "is unloaded as soon as it is idle"
    return f"stays loaded for {format_seconds(seconds)} without use"


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except InvalidSetting as error:
        raise ArgumentTypeError(f"it must be {error.expected}, not '{text}'") from None
