"""`ingle eval`: compares a smaller model with a fuller one, on the user's own prompts."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ...benchmark.evaluation_text import eval_text
from ...terminal.terminal_output import confirmed, print_json, print_status, text_columns
from ...terminal.unsafe_characters import with_colours_only
from ..chat.chats import open_chats
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..engine_installation import required_import_path
from ..models.pull import find_model_path
from ..progress_report import ProgressReport
from ..text_file import read_text_file

if TYPE_CHECKING:
    from ingle.backends.jobs.evaluation.messages import EvaluationProgress

EXAMPLES = """\
  ingle eval model-Q4_K_M.gguf --against model-Q8_0.gguf
  ingle eval small.gguf --against ./folder --prompts mine.txt
  ingle eval small.gguf --against full.gguf --chats --limit 20"""


class PromptTurn(TypedDict):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


Conversation = list[PromptTurn]

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
        prompts=[[ChatMessage(**turn) for turn in turns] for turns in prompts],
        tokens=options.tokens,
    )
    import_path = required_import_path("llama.cpp")
    with ProgressReport() as progress:
        report = run_evaluation(spec, lambda step: _show(progress, step), import_path)
    if options.json:
        from msgspec.structs import asdict

        print_json({"model": name, "path": path, "fuller": fuller_name, **asdict(report)})
    else:
        text = eval_text(name, fuller_name, report, text_columns(), whole=options.all)
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
    parser.add_number("--limit", 1, 1000, default=12, help="maximum number of prompts (12)")
    parser.add_number("--tokens", 1, 2048, default=64, help="tokens of each answer (64)")
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
        report.show_step(f"loading {step.loading}", in_lines=True)
    else:
        report.show_step(f"{step.done} of {step.total} prompts answered by both", in_lines=True)


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
    turns = [PromptTurn(role=m.role, content=m.text) for m in messages if m.role in _ROLES]
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
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {"prompt": value}
    prompt = fields.get("prompt")
    if isinstance(prompt, str) and prompt.strip():
        return _asked(prompt)
    from msgspec import ValidationError, convert

    with suppress(ValidationError, UnicodeEncodeError):  # a name may have a lone surrogate
        turns = convert(fields.get("messages"), Conversation)
        if turns and turns[-1]["role"] == "user" and turns[-1]["content"].strip():
            return [
                PromptTurn(role=turn["role"], content=_whole(turn["content"])) for turn in turns
            ]
    raise UsageError(
        f"{where} has neither a prompt nor messages that end with a user's.",
        'Write {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}.',
    )


def _asked(text: str) -> Conversation:
    return [{"role": "user", "content": _whole(text)}]


def _whole(text: str) -> str:
    """Return the text with question marks for lone surrogates, which JSON allows and UTF-8 does
    not.
    """
    return text.encode("utf-8", "replace").decode()
