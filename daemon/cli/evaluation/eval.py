"""`ingle eval`: compares a smaller model with a fuller one, on the user's own prompts."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from ...benchmark.evaluation_text import eval_text
from ...terminal.terminal_output import confirmed, print_json, print_status, table_columns
from ...terminal.unsafe_characters import with_colours_only
from ..chat.chats import open_chats
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser, whole_number
from ..models.pull import find_model_path
from ..progress_report import ProgressReport
from ..text_file import read_text_file

if TYPE_CHECKING:
    from ingle.backends.jobs.evaluation.messages import EvaluationProgress

EXAMPLES = """\
  ingle eval model-Q4_K_M.gguf --against model-Q8_0.gguf
  ingle eval small.gguf --against ./folder --prompts mine.txt
  ingle eval small.gguf --against full.gguf --chats --limit 20"""
Conversation = list[dict[str, str]]

_ROLES = ("system", "user", "assistant")
_LONGEST = 6000
"""Characters of a conversation taken from a chat; longer ones would be slow to prefill twice."""


def main(arguments: Sequence[str]) -> int:
    """Compare and print; raises `CommandError`."""
    options = _parser().parse_args(arguments)
    if options.prompts and options.chats:
        raise UsageError("Prompts come from a file or from your chats.", "Use only one of them.")
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
    with ProgressReport() as progress:
        report = run_evaluation(spec, lambda step: _show(progress, step))
    if options.json:
        from msgspec.structs import asdict

        print_json({"model": name, "path": path, "fuller": fuller_name, **asdict(report)})
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
    parser.add_flag("--chats", help="use the questions of your latest chats")
    parser.add_flag("--yes", help="do not ask before chats are read")
    for flag, high, default, what in (
        ("--limit", 1000, 12, "maximum number of prompts"),
        ("--tokens", 2048, 64, "tokens of each answer"),
    ):
        kind = whole_number(1, high)
        parser.add_argument(
            flag, type=kind, default=default, metavar="N", help=f"{what} ({default})"
        )
    parser.add_flag("--all", help="show every prompt, not the worst five")
    return parser


def _prompts(options: Namespace) -> list[Conversation]:
    if options.prompts:
        return prompts_of_file(options.prompts)[: options.limit]
    if options.chats:
        if not options.yes:
            _ask_for_chats(options.limit)
        return prompts_of_chats(options.limit)
    from ingle.backends.jobs.evaluation.default_prompts import DEFAULT_PROMPTS

    return [_asked(text) for text in DEFAULT_PROMPTS[: options.limit]]


def _ask_for_chats(limit: int) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Your chats are read only with your consent.", "Add --yes.")
    print_status(
        f"This reads the questions of your latest {limit} chats and prints parts of them.\n"
        "Nothing is stored, and nothing leaves this machine."
    )
    if not confirmed("Continue?"):
        raise CommandError("No chat was read.")


def _show(report: ProgressReport, step: EvaluationProgress) -> None:
    if step.loading is not None:
        report.show_step(f"loading {step.loading}")
    else:
        report.show_step(f"{step.done} of {step.total} prompts answered by both")


def prompts_of_file(name: str) -> list[Conversation]:
    """Return the prompts of JSON lines with `prompt` or `messages`, else texts between empty lines.

    Raises `UsageError`, which names the invalid line.
    """
    text = read_text_file(name, "The prompts", if_too_long="Use a part of it.")
    if name.lower().endswith((".jsonl", ".ndjson")):
        # Not `splitlines`: a text inside a line may contain other separators.
        lines = enumerate(text.split("\n"), start=1)
        found = [_of_line(line, f"{name}, line {n}") for n, line in lines if line.strip()]
    else:
        pieces = re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n"))
        found = [_asked(piece.strip()) for piece in pieces if piece.strip()]
    if not found:
        raise UsageError(f"{name} contains no prompt.", "Write prompts, separated by empty lines.")
    return found


def prompts_of_chats(limit: int) -> list[Conversation]:
    """Return the user's questions of the latest chats with their context; nothing is written.

    Raises `CommandError` and `HistoryError` if the chats cannot be read.
    """
    found: list[Conversation] = []
    with open_chats() as store:
        if store.database.is_locked:
            raise CommandError("Your chats are locked, so none was read.", "Unlock them first.")
        newest = sorted(store.recent(4 * limit), key=lambda chat: -chat.changed)
        for chat in (store.load(each.id) for each in newest):
            if chat is not None and (turns := _last_question(chat.path)):
                found.append(turns)
            if len(found) == limit:
                break
    if not found:
        raise CommandError("There are no chats with a question yet.", "Name a file: --prompts.")
    return found


def _last_question(messages: Any) -> Conversation:
    """Return the conversation up to the user's last message, without the oldest turns if it is
    long.
    """
    turns = [{"role": str(m.role), "content": str(m.text)} for m in messages if m.role in _ROLES]
    while turns and turns[-1]["role"] != "user":
        turns.pop()
    if not turns or not turns[-1]["content"].strip():
        return []
    while len(turns) > 1 and _length(turns) > _LONGEST:
        del turns[0]
        while turns[0]["role"] != "user":
            del turns[0]
    return turns if _length(turns) <= _LONGEST else []


def _length(turns: Conversation) -> int:
    return sum(len(turn["content"]) for turn in turns)


def _of_line(line: str, where: str) -> Conversation:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):  # deeply nested lists
        raise UsageError(f"{where} is not JSON.", 'Write {"prompt": "…"} on each line.') from None
    if _is_prompt(value):
        return _asked(value)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    prompt = fields.get("prompt")
    if _is_prompt(prompt):
        return _asked(prompt)
    messages = fields.get("messages")
    if isinstance(messages, list) and messages:
        turns = [_turn(entry) for entry in cast("list[Any]", messages)]
        asked = cast("Conversation", turns)
        if all(turns) and asked[-1]["role"] == "user" and _is_prompt(asked[-1]["content"]):
            return asked
    raise UsageError(
        f"{where} has neither a prompt nor messages that end with a user's.",
        'Write {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}.',
    )


def _turn(entry: Any) -> dict[str, str] | None:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if role not in _ROLES or not isinstance(content, str):
        return None
    return {"role": cast("str", role), "content": _whole(content)}


def _is_prompt(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _asked(text: str) -> Conversation:
    return [{"role": "user", "content": _whole(text)}]


def _whole(text: str) -> str:
    """Return the text with question marks for lone surrogates, which JSON allows and UTF-8 does
    not.
    """
    return text.encode("utf-8", "replace").decode()
