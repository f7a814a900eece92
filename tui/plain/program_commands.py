"""`ProgramCommands`: what in a text is private, and what is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plain_session import PlainSession


class ProgramCommands:
    """Facts that are looked up when somebody asks."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {
            "redact": self._redact,
            "doctor": lambda _: self._doctor(),
        }

    def _redact(self, text: str) -> None:
        from ..privacy.pii_scanner import scan
        from ..privacy.text_redaction import redact

        prompts = [message for message in self._session.chat.path if message.role == "user"]
        text = text or (prompts[-1].text if prompts else "")
        if not text:
            self._session.output.error("Say what to look at: /redact TEXT.")
            return
        findings = scan(text)
        found = f"{len(findings)} found." if findings else "Nothing was found to mask."
        self._session.output.line(f"{found} Names have no shape by which they could be found.")
        self._session.output.line(redact(text, findings))

    def _doctor(self) -> None:
        from ..commands import doctor_report

        session = self._session
        env = dict(os.environ)
        size = shutil.get_terminal_size()
        shown = doctor_report.size_fact(env, size.columns, size.lines, sync=False)
        daemon, memory = session.wait(doctor_report.daemon_facts(session.client))
        name = session.model.name if session.model is not None else None
        facts = [
            *doctor_report.program_facts(),
            *doctor_report.terminal_facts(env, shown)[:-1],
            *doctor_report.clipboard_facts(env),
            *doctor_report.machine_facts([], memory),
            *daemon,
            ("model", name or "none"),
            *doctor_report.place_facts(session.folders),
        ]
        speed = doctor_report.speed_of(session.chat.path)
        if speed:
            facts.append(("last answer", speed))
        for title, value in facts:
            session.output.line(f"{title}: {value}")
