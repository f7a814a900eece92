"""Lines of instructions that change with the session are found, and moved behind the tools."""

from __future__ import annotations

import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.daemon.warming.volatile_lines import (
    DATE,
    FOLDER,
    GIT,
    first_change,
    moved_behind,
    volatile_kind,
)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Today's date: 2026-11-28", DATE),
        ("  Today's date: Sat Nov 28 2026", DATE),
        ("Today's date is Saturday, November 28, 2026.", DATE),
        ("The current date is 28 November 2026.", DATE),
        ("Current Date: 11/28/2026", DATE),
        ("Working directory: /home/mia/project", FOLDER),
        ("  Primary working directory: `/home/mia/project`", FOLDER),
        ("Current Working Directory: C:\\work\\project", FOLDER),
        ("cwd: ~/project", FOLDER),
        ("## /home/mia/.notes/-project/memory/MEMORY.md", FOLDER),
        ("Session folder: /home/mia/.agent/sessions/32fd217e", FOLDER),
        ("  <cwd>/home/mia/project</cwd>", FOLDER),
        ("<current_date>2026-11-28</current_date>", DATE),
        ("Keep notes in your memory at `/home/mia/.notes/-home-mia-project/memory/`.", FOLDER),
        ("gitStatus: This is the git status at the start of the conversation.", GIT),
        ("Do not change the working directory.", None),
        ("The text of <cwd> is a path.", None),
        ("Do not use much memory, and/or measure it.", None),
        ("The API was published on 2024-05-01.", None),
        ("Use the date of the last commit.", None),
        ("Prefer absolute paths such as /etc/hosts.", None),
    ],
)
def test_kinds_of_lines(line: str, kind: str | None) -> None:
    assert volatile_kind(line) == kind


RULES = """You are an agent.
<env>
Working directory: /home/mia/project
Is directory a git repo: Yes
Today's date: 2026-11-28
</env>
<cwd>
/home/mia/project
</cwd>
Keep notes in your memory at `/home/mia/.notes/-project/memory/`. One fact is one file:
Be brief.
gitStatus: This is the git status at the start of the conversation.
Current branch: main

Status:
M README.md"""


def test_lines_move_to_the_first_user_message() -> None:
    messages = [
        ChatMessage("system", RULES),
        ChatMessage("user", "Fix it."),
        ChatMessage("assistant", "Done."),
        ChatMessage("user", "Thanks."),
    ]
    moved = moved_behind(messages)
    assert moved[0].content == (
        "You are an agent.\n<env>\nIs directory a git repo: Yes\n</env>\n"
        "One fact is one file:\nBe brief."
    )
    assert moved[1].content == (
        "<environment>\nWorking directory: /home/mia/project\nToday's date: 2026-11-28\n"
        "<cwd>\n/home/mia/project\n</cwd>\n"
        "Keep notes in your memory at `/home/mia/.notes/-project/memory/`.\n"
        "gitStatus: This is the git status at the start of the conversation.\n"
        "Current branch: main\n\nStatus:\nM README.md\n</environment>\n\nFix it."
    )
    assert moved[2:] == messages[2:]


def test_instructions_behind_the_first_user_message_move_before_it() -> None:
    late = ChatMessage("system", "Use tools.\nWorking directory: /home/mia/project")
    first = [ChatMessage("system", "Be brief."), ChatMessage("user", "Fix it."), late]
    turn = [ChatMessage("assistant", "Done."), ChatMessage("system", "Now plan.")]
    moved = moved_behind([*first, *turn])
    assert moved[:2] == [
        ChatMessage("system", "Be brief.\n\nUse tools."),
        ChatMessage(
            "user", "<environment>\nWorking directory: /home/mia/project\n</environment>\n\nFix it."
        ),
    ]
    assert moved[2:] == turn


@pytest.mark.parametrize(
    "messages",
    [
        [ChatMessage("system", "Be brief."), ChatMessage("user", "Today's date: 2026-11-28")],
        [ChatMessage("system", RULES)],
        [ChatMessage("system", RULES), ChatMessage("assistant", "Hello.")],
        [ChatMessage("user", "Hi"), ChatMessage("system", RULES)],
        [],
    ],
)
def test_nothing_moves_without_a_place_for_it(messages: list[ChatMessage]) -> None:
    assert moved_behind(messages) == messages


def test_the_first_change_is_found() -> None:
    assert first_change("a\nToday's date: 2026-11-27", "a\nToday's date: 2026-11-28") == (2, DATE)
    assert first_change("a\nb\nc", "a\nx\nc") == (2, None)
    assert first_change("a", "a\nb") is None
