"""The attempts to escape from a model's confinement: their report, and its text."""

from __future__ import annotations

import sys
import textwrap

import msgspec

from ingle.backends.base.errors import BackendError
from ingle.backends.confinement.access_policy import has_gpu_device
from ingle.backends.confinement.landlock_rules import landlock_version
from ingle.backends.jobs.escape_check.messages import EscapeAttempt

_NEWEST_NEEDED = 6


class EscapeReport(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts; `ok` if none succeeded that should not, and models are confined.

    `landlock` is the kernel's version of it, 0 without.
    """

    ok: bool
    confine: bool
    gpu: bool
    landlock: int
    stopped: int
    attempts: list[EscapeAttempt]


def report_escapes(*, confine: bool) -> EscapeReport:
    """Attempt to escape as a model's process on this machine would; `confine` is the setting.

    Raises `BackendError` if the attempts cannot be made.
    """
    if sys.platform != "linux":
        raise BackendError(
            "Only Linux confines the processes of models.",
            hint="docs/model-safety.md says what else protects this machine.",
        )
    from ingle.backends.jobs.escape_check.escape_targets import attempt_escapes

    gpu = has_gpu_device()
    try:
        attempts = attempt_escapes(drives_gpu=gpu)
    except OSError as error:
        raise BackendError(f"The targets of the attempts cannot be made: {error}.") from error
    return EscapeReport(
        ok=confine and all(each.stopped or each.known for each in attempts),
        confine=confine,
        gpu=gpu,
        landlock=landlock_version(),
        stopped=sum(each.stopped for each in attempts),
        attempts=attempts,
    )


def escape_text(report: EscapeReport, *, columns: int) -> str:
    """Return the report in lines of at most `columns` characters."""
    mode = "a GPU" if report.gpu else "no GPU"
    parts = [
        f"{report.stopped} of {len(report.attempts)} attempts to escape from the process of a "
        f"model were stopped (with {mode})."
    ]
    for heading, known in (("Not stopped", False), ("Possible by design", True)):
        found = [each for each in report.attempts if not each.stopped and bool(each.known) is known]
        if found:
            why = f": {found[0].known}" if known else ""
            parts.append(f"{heading}{why}:")
            parts += [f"  {each.kind}: {each.name}" for each in found]
    if report.landlock < _NEWEST_NEEDED:
        version = f"version {report.landlock} of Landlock" if report.landlock else "no Landlock"
        parts.append(f"This kernel has {version}. Linux 6.12 and later stop all of them.")
    if not report.confine:
        parts.append(
            "Models on this machine are not confined: the setting `confine` is false. Set it to "
            "true and restart the daemon."
        )
    return "\n".join("\n".join(_wrapped(part, columns)) for part in parts)


def _wrapped(text: str, columns: int) -> list[str]:
    hanging = "    " if text.startswith(" ") else ""
    return textwrap.wrap(text, columns, subsequent_indent=hanging, break_on_hyphens=False)
