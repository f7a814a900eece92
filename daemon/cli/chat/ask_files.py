"""`ingle ask-files`: answers a question with passages of a folder's files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_colors import TerminalColors
from ...terminal.terminal_output import print_json, print_status
from ...terminal.unsafe_characters import without_unsafe
from ..command_errors import UsageError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon

if TYPE_CHECKING:
    from ...client.document_types import FoundPassages

EXAMPLES = """\
  ingle ask-files ~/notes "What did we agree with the landlord?"
  ingle ask-files docs "How are drafts verified?" --passages"""
_SECONDS = 60.0
"""For reading new files; the others are read in the background."""


def main(arguments: Sequence[str]) -> int:
    """Find passages, and have a model answer with them; raises `CommandError`."""
    parser = CommandParser(
        "ask-files",
        "Ask about the text, Markdown, code, HTML, PDF and Word files of a folder. Their\n"
        "passages are found on this machine; the best ones become part of the prompt.",
        examples=EXAMPLES,
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder, with those below it")
    parser.add_argument("question", nargs="+", metavar="QUESTION", help="what to ask")
    parser.add_argument("--model", metavar="NAME", help="the model (default: the configured one)")
    parser.add_number(
        "--most", 1, 50, help="how many passages to use (as many as have 9,600 characters)"
    )
    parser.add_flag("--passages", help="print the passages only; implied by --json")
    options = parser.parse_args(arguments)
    question = " ".join(options.question)
    if not question.strip():
        raise UsageError("The question is empty.", "Write it after the folder.")
    found = _search(options.folder, question, options.most)
    if options.json:
        print_json(found)
        return 0
    print_status(found.summary)
    if options.passages:
        print(passages_text(found, TerminalColors.for_output()))
        return 0
    if not found.passages:
        return 1
    from ...client.document_types import CITE
    from .run import ask

    files = [f'<file name="{each.place}">\n{each.text}\n</file>' for each in found.passages]
    return ask(options.model, "\n\n".join([*files, question, CITE]))


def passages_text(found: FoundPassages, paint: TerminalColors) -> str:
    """Return the passages, each below its place and headings."""
    parts = [
        f"{paint.bold(without_unsafe(each.place))}  {without_unsafe(each.title)}".rstrip()
        + f"\n{without_unsafe(each.text)}\n"
        for each in found.passages
    ]
    return "\n".join(parts)


def _search(folder: str, question: str, most: int | None) -> FoundPassages:
    from ...client.document_types import PROMPT_PASSAGES, FoundPassages

    client = ensure_daemon(load_config(os.environ))
    body = {
        "folder": str(Path(folder).expanduser().absolute()),
        "question": question,
        "most": most or PROMPT_PASSAGES,
        "wait": _SECONDS,
    }
    path = "/ingle/v1/documents/search"
    found = client.post(path, body, FoundPassages, timeout=2 * _SECONDS)
    return found if most else found.for_prompt()
