"""`ingle eval`: compares a smaller model with a fuller one, on the user's own prompts."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...benchmark.evaluation_text import eval_text
from ...terminal.terminal_output import print_json, table_columns
from ...terminal.unsafe_characters import with_colours_only
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..models.model_path import find_model_path
from ..progress_report import ProgressReport
from .eval_prompts import Conversation, prompts_of_chats, prompts_of_file

if TYPE_CHECKING:
    from ingle.backends.jobs.evaluation.messages import EvaluationProgress

EXAMPLES = """\
  ingle eval model-Q4_K_M.gguf --against model-Q8_0.gguf
  ingle eval small.gguf --against ./folder --prompts mine.txt
  ingle eval small.gguf --against full.gguf --chats --limit 20"""


def main(arguments: Sequence[str]) -> int:
    """Compare and print; raises `CommandError`."""
    options = _parser().parse_args(arguments)
    _check(options)
    (name, path), (fuller_name, fuller_path) = map(
        find_model_path, (options.model, options.against)
    )
    if Path(path).exists() and Path(fuller_path).exists() and Path(path).samefile(fuller_path):
        raise UsageError("Both are the same model.", "Name its fuller edition with --against.")
    prompts = _prompts(options)
    from ingle.backends.base.conversation import ChatMessage
    from ingle.backends.jobs.evaluation.evaluator import run_evaluation
    from ingle.backends.jobs.evaluation.messages import EvaluationSpec

    spec = EvaluationSpec(
        path=path,
        fuller_path=fuller_path,
        prompts=[
            [ChatMessage(turn["role"], turn["content"]) for turn in turns] for turns in prompts
        ],
        tokens=options.tokens,
    )
    progress = ProgressReport()
    try:
        report = run_evaluation(spec, lambda step: _show(progress, step))
    finally:
        progress.erase()
    if options.json:
        import msgspec

        values = msgspec.to_builtins(report)
        values.pop("type")
        print_json({"model": name, "path": path, "fuller": fuller_name, **values})
    else:
        text = eval_text(name, fuller_name, report, table_columns() or 80, whole=options.all)
        print(with_colours_only(text))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "eval",
        "Let a smaller model and a fuller one of the same vocabulary answer the same\n"
        "prompts, and report how far their predictions differ (KL divergence in nats\n"
        "per token), how often their first choice is the same, and where their answers\n"
        "diverge. Nothing leaves this machine.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="the smaller one: a file, folder or name")
    parser.add_argument(
        "--against", required=True, metavar="FULLER", help="the fuller one, such as its Q8_0"
    )
    parser.add_argument(
        "--prompts", metavar="FILE", help="texts between empty lines, or .jsonl; else built-in ones"
    )
    parser.add_argument(
        "--chats", action="store_true", help="use the questions of your latest chats"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before chats are read")
    parser.add_argument(
        "--limit", type=int, default=12, metavar="N", help="maximum number of prompts (12)"
    )
    parser.add_argument(
        "--tokens", type=int, default=64, metavar="N", help="tokens of each answer (64)"
    )
    parser.add_argument("--all", action="store_true", help="show every prompt, not the worst five")
    parser.add_json()
    return parser


def _check(options: Namespace) -> None:
    if options.prompts and options.chats:
        raise UsageError("Prompts come from a file or from your chats.", "Use only one of them.")
    for flag, high in (("limit", 1000), ("tokens", 2048)):
        if not 1 <= getattr(options, flag) <= high:
            raise UsageError(f"--{flag} is a number from 1 to {high}.")


def _prompts(options: Namespace) -> list[Conversation]:
    if options.prompts:
        return prompts_of_file(options.prompts)[: options.limit]
    if options.chats:
        _ask_for_chats(options)
        return prompts_of_chats(options.limit)
    from ingle.backends.jobs.evaluation.default_prompts import DEFAULT_PROMPTS

    ours = [[{"role": "user", "content": text}] for text in DEFAULT_PROMPTS]
    return ours[: options.limit]


def _ask_for_chats(options: Namespace) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("Your chats are read only with your consent.", "Add --yes.")
    print(
        f"This reads the questions of your latest {options.limit} chats and prints parts of them.\n"
        "Nothing is stored, and nothing leaves this machine. Continue? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("No chat was read.", None)


def _show(report: ProgressReport, step: EvaluationProgress) -> None:
    if step.loading is not None:
        report.show_step(f"loading {step.loading}")
    else:
        report.show_step(f"{step.done} of {step.total} prompts answered by both")
