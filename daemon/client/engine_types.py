"""Types of the engines and their installation in the native API."""

from __future__ import annotations

from typing import Literal

import msgspec

from .answer import Answer

InstallStep = Literal["resolving", "downloading", "building", "checking", "done", "failed"]


class InstallProgress(Answer, frozen=True, kw_only=True):
    """The progress of an installation; `done` of `total` count bytes, or steps of a build.

    `total` is 0 while it is not known. `detail` names the package or the file at work.
    """

    engine: str
    title: str = ""
    step: InstallStep = "resolving"
    done: int = 0
    total: int = 0
    detail: str = ""
    error: str = ""

    def text(self) -> str:
        """Return the step and how far it is, for display."""
        if not self.total:
            return self.step
        if self.step != "downloading":
            return f"{self.step}, {self.done} of {self.total}"
        scale, unit = (10**9, "GB") if self.total >= 10**9 else (10**6, "MB")
        return f"{self.step}, {self.done / scale:.1f} of {self.total / scale:.1f} {unit}"


class EngineEntry(Answer, frozen=True, kw_only=True):
    """An engine that is installed or can be; sizes in bytes.

    `engine` is the name in settings and requests, which several entries may share: the first
    installed one runs. `place` is its folder, empty if its packages lie in ingle's own
    environment. `outdated`: an installation would replace it with other versions. `useless` is why
    it would make no difference on this machine, empty if it would; `limited` is what it would not
    improve.
    """

    name: str
    engine: str
    title: str
    state: Literal["installed", "installing", "missing"]
    version: str = ""
    place: str = ""
    bytes: int = 0
    download_bytes: int = 0
    outdated: bool = False
    useless: str = ""
    limited: str = ""
    progress: InstallProgress | None = None


class EngineOffer(Answer, frozen=True, kw_only=True):
    """An engine that this machine would profit from, and the question to ask."""

    name: str
    question: str
    download_bytes: int


class EngineEntries(Answer, frozen=True):
    """All engines, and the one to offer, if any."""

    engines: list[EngineEntry] = []
    offer: EngineOffer | None = None


class EngineRemoved(Answer, frozen=True):
    """What a removal freed, in bytes."""

    name: str
    bytes: int


class CheckStep(Answer, frozen=True, kw_only=True):
    """One step of a check; `remedy` is what to do if it failed."""

    name: str
    passed: bool
    detail: str = ""
    remedy: str = ""


class EngineCheck(Answer, frozen=True, kw_only=True):
    """The steps of a check in order; it ends with the first that failed."""

    name: str
    steps: list[CheckStep] = msgspec.field(default_factory=list[CheckStep])

    @property
    def passed(self) -> bool:
        """Whether every step did."""
        return all(step.passed for step in self.steps)
