"""Renders one template in helper processes, replacing any that exceeds its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .template_errors import HelperDied, LimitExceeded, TemplateError, failure_error
from .template_helper import RenderLimits, TemplateHelper
from .template_protocol import (
    Compile,
    Compiled,
    FromHelper,
    Render,
    Rendered,
    RenderFailed,
    ToHelper,
)


class TemplateRenderer:
    """Owns at most one helper process; one caller at a time."""

    def __init__(self, source: str, limits: RenderLimits) -> None:
        self._source = source
        self._limits = limits
        self._helper: TemplateHelper | None = None
        self._compiled = False

    @property
    def pid(self) -> int | None:
        """Return the helper's process id, None if it is not running."""
        return self._helper.pid if self._helper is not None else None

    def start(self) -> TemplateHelper:
        """Return a running helper, which may still be starting: this does not wait."""
        if self._helper is not None and not self._helper.alive:
            self.close()
        if self._helper is None:
            self._helper = TemplateHelper(self._limits)
        return self._helper

    def compile(self) -> None:
        """Wait until a helper holds the compiled template; raises `TemplateError`."""
        self._ask(None, self._limits.seconds, 0)

    def render(self, variables: Mapping[str, object], input_characters: int, seconds: float) -> str:
        """Return the text within `seconds`; raises `TemplateRefused` or `TemplateError`.

        The time to start a helper is not counted.
        """
        characters = self._limits.characters_for(input_characters)
        request = Render(dict(variables), characters, math.ceil(seconds))
        answer = self._ask(request, seconds, characters)
        if not isinstance(answer, Rendered):
            raise TemplateError("The chat template's helper gave an answer out of turn.")
        return answer.text

    def close(self) -> None:
        """End the helper; the next call starts another."""
        if self._helper is not None:
            self._helper.close()
        self._helper = None
        self._compiled = False

    def _ask(self, request: Render | None, seconds: float, characters: int) -> FromHelper:
        """Ask a ready helper, and a second one if the first was killed from outside."""
        try:
            try:
                return self._ask_once(request, seconds, characters)
            except HelperDied:
                self.close()
                return self._ask_once(request, seconds, characters)
        except HelperDied as error:
            self.close()
            raise TemplateError(
                "The process that renders the model's chat template ended unexpectedly."
            ) from error

    def _ask_once(self, request: Render | None, seconds: float, characters: int) -> FromHelper:
        helper = self.start()
        if not self._compiled:
            memory = self._limits.memory if self._limits.kernel_memory else None
            helper.wait_ready()
            self._exchange(helper, Compile(self._source, memory), self._limits.seconds, 0)
            self._compiled = True
        if request is None:
            return Compiled()
        return self._exchange(helper, request, seconds, characters)

    def _exchange(
        self, helper: TemplateHelper, request: ToHelper, seconds: float, characters: int
    ) -> FromHelper:
        """Return a successful answer; a helper that exceeded a limit is discarded."""
        try:
            answer = helper.ask(request, seconds, characters)
        except LimitExceeded:
            self.close()
            raise
        if not isinstance(answer, RenderFailed):
            return answer
        if isinstance(request, Compile) or answer.kind in ("memory", "recursion"):
            self.close()
        raise failure_error(answer, self._limits.memory)
