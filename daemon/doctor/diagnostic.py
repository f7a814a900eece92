"""One finding: what is wrong or worth knowing, and how to fix it."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["broken", "warning", "note"]


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """`what` is a sentence, `why` explains it, `mend` is the repair in words.

    `commands` are to be pasted into a shell, one after another. `code` never changes. What is
    `broken` does not work; a `warning` is about speed or risk; a `note` is not a fault.
    """

    code: str
    severity: Severity
    what: str
    why: str = ""
    mend: str = ""
    commands: list[str] = []
