"""Types of the doctor's findings in the native API."""

from __future__ import annotations

from typing import Literal

from .answer import Answer

Severity = Literal["broken", "warning", "note"]


class Diagnostic(Answer, frozen=True, kw_only=True):
    """One problem or remark: `what` in a sentence, `why` in detail, `mend` how to fix it.

    `commands` can be pasted into a shell, one after another. `code` never changes. `broken`:
    something does not work; `warning`: it is slow or may fail; `note`: for information.
    """

    code: str = ""
    severity: Severity
    what: str
    why: str = ""
    mend: str = ""
    commands: list[str] = []


class DoctorFindings(Answer, frozen=True, kw_only=True):
    """Problems found, the worst first, and the names of the checks that found none."""

    ok: bool = True
    findings: list[Diagnostic] = []
    fine: list[str] = []
