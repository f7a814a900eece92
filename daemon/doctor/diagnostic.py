"""`Diagnostic`: one thing that is wrong or worth knowing, and how to mend it."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["broken", "warning", "note"]


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """`what` is a sentence, `why` says more, `mend` what to do in words.

    `commands` are to be pasted into a shell, one after another. `code` never changes. What is
    `broken` does not work; a `warning` is about speed or luck; a `note` is no fault.
    """

    code: str
    severity: Severity
    what: str
    why: str = ""
    mend: str = ""
    commands: list[str] = []
