"""Failpoints: named places where a test makes the product fail, with `INGLE_TEST_FAILPOINTS`.

The variable holds rules apart by `;`, each `NAME=ACTION`, and behind that what limits it:

    write.sync=error:ENOSPC            every time
    write.sync=error:EIO@3             the third time only, in each process
    worker.decode=signal:SEGV@5+       from the fifth time on
    worker.load=exit:1,once:/tmp/x     only by the process that creates that file

Actions are `error:ERRNO` (an `OSError`), `delay:SECONDS`, `exit:STATUS`, `signal:NAME` to the
process itself, and `hang`. Unset, a failpoint is one comparison.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

VARIABLE = "INGLE_TEST_FAILPOINTS"

POINTS: Mapping[str, str] = {
    "atomic.write": "a small file is about to be written beside its place",
    "atomic.sync": "its bytes are about to be brought to the disk",
    "atomic.rename": "it is about to take its place",
    "pull.write": "a piece of a download is about to be written",
    "pull.sync": "a download is about to be brought to the disk",
    "pull.rename": "a whole download is about to take its place",
    "update.switch": "the new version of a model is about to be put in use",
    "responses.write": "a response is about to be stored",
    "files.write": "a piece of an uploaded file is about to be written",
    "files.commit": "a whole file is about to be named",
    "ledger.append": "a line of the ledger is about to be written",
    "batch.result": "the result of one request of a batch is about to be written",
    "worker.load": "a worker has loaded another part of its model",
    "worker.prefill": "a worker is about to compute a step with prefill",
    "worker.decode": "a worker is about to compute a step of decoding only",
}
"""Every failpoint, and where it is."""


class BadFailpoint(ValueError):
    """The variable has an invalid rule."""


@dataclass(frozen=True)
class Rule:
    """The action at one failpoint; hits count from 1."""

    act: Callable[[], object]
    first: int = 1
    last: int | None = None
    once: Path | None = None

    def applies(self, hit: int) -> bool:
        """Whether the rule applies to this hit."""
        if hit < self.first or (self.last is not None and hit > self.last):
            return False
        if self.once is None:
            return True
        try:
            os.close(os.open(self.once, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True


class Failpoints:
    """The rules of one process, with the hits of each failpoint; thread-safe."""

    def __init__(self, rules: dict[str, Rule]) -> None:
        self._rules = rules
        self._hits: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def parse(cls, text: str) -> Failpoints:
        """Read the variable; raises `BadFailpoint`."""
        rules: dict[str, Rule] = {}
        for part in filter(None, (part.strip() for part in text.split(";"))):
            name, _, what = part.partition("=")
            if name not in POINTS:
                raise BadFailpoint(f"there is no failpoint {name!r}: {', '.join(POINTS)}")
            rules[name] = _rule(what)
        return cls(rules)

    @property
    def folders(self) -> set[Path]:
        """The folders of the files that `once` rules create."""
        return {rule.once.parent for rule in self._rules.values() if rule.once is not None}

    def hit(self, name: str) -> None:
        """Act as the rule for this failpoint says, if there is one."""
        rule = self._rules.get(name)
        if rule is None:
            return
        with self._lock:
            self._hits[name] += 1
            hit = self._hits[name]
        if rule.applies(hit):
            rule.act()


def _rule(text: str) -> Rule:
    what, _, once = text.partition(",once:")
    what, _, count = what.partition("@")
    action, _, value = what.partition(":")
    try:
        first = int(count.rstrip("+")) if count else 1
        last = first if count and not count.endswith("+") else None
        return Rule(_action(action, value), first, last, Path(once) if once else None)
    except (ValueError, AttributeError, KeyError) as error:
        raise BadFailpoint(f"{text!r} is no action of a failpoint") from error


def _action(action: str, value: str) -> Callable[[], object]:
    if action == "error":
        return partial(_fail, getattr(errno, value))
    if action == "delay":
        return partial(time.sleep, float(value))
    if action == "exit":
        return partial(os._exit, int(value or "1"))
    if action == "signal":
        return partial(os.kill, os.getpid(), signal.Signals[f"SIG{value}"])
    if action == "hang" and not value:
        return threading.Event().wait
    raise ValueError(action)


def _fail(number: int) -> None:
    raise OSError(number, f"{os.strerror(number)} (a failpoint)")


_RULES = os.environ.get(VARIABLE)
ACTIVE = Failpoints.parse(_RULES) if _RULES else None
"""None unless the variable is set."""


def failpoint(name: str) -> None:
    """Fail here if a test asks for it."""
    if ACTIVE is not None:
        ACTIVE.hit(name)
