"""Commands of the program itself: help, and a report on terminal, machine and daemon."""

from __future__ import annotations

import os
import shutil

from . import doctor_report
from .chat_session import ChatSession
from .command_results import CommandHelp, Facts
from .command_table import COMMANDS


def help_(session: ChatSession, _argument: str) -> CommandHelp:
    """List the commands."""
    listed = [command for command in COMMANDS if command.is_listed]
    here = [command for command in listed if session.can_run(command.name)]
    return CommandHelp(here, [command for command in listed if command not in here])


async def doctor(session: ChatSession, _argument: str) -> Facts:
    """Report on terminal, machine and daemon, and their problems."""
    size = shutil.get_terminal_size()
    shown = doctor_report.size_fact(dict(os.environ), size.columns, size.lines, sync=False)
    facts = await doctor_report.quick_facts(session, shown)
    return Facts({"Doctor": facts + await doctor_report.finding_facts(session.client)})
