"""Requests as `ingle watch` shows them."""

from __future__ import annotations

import time
from collections.abc import Callable

from .answer import Answer

Numbers = Callable[[int], str]
"""Formats a count."""


class PrefixBreak(Answer, frozen=True, kw_only=True):
    """Where a prompt first differs from the client's earlier one that is most like it: the byte, of
    how many, and what follows there in the earlier prompt and in this one.
    """

    at: int
    of: int
    before: str
    after: str

    def facts(self, number: Numbers) -> tuple[str, str, str]:
        """Return where the prompt left the earlier one, what was there, and what is now."""
        return (
            f"prefix broke at byte {number(self.at)} of {number(self.of)}:",
            f"was {self.before!r}",
            f"now {self.after!r}",
        )


class WatchedRequest(Answer, frozen=True, kw_only=True):
    """A request that has ended; `time` is the Unix time of its start.

    `outcome` is the reason of the answer's end, or `failed` with an `error`. Of the prompt's tokens
    the cached ones were not computed. Seconds are those of the whole request, in the queue, until
    the first token was sampled, and from there to the last. `prefix` is None if the prompt begins
    with an earlier one, or there is none. `slimmed` characters were left out of it.
    """

    id: str
    time: float
    client: str
    path: str
    model: str
    messages: int
    tools: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float
    queue_seconds: float
    prompt_seconds: float
    decode_seconds: float
    calls: list[str]
    outcome: str
    error: str = ""
    slimmed: int = 0
    prefix: PrefixBreak | None = None

    @property
    def clock(self) -> str:
        """The local time of the start."""
        return time.strftime("%H:%M:%S", time.localtime(self.time))

    @property
    def program(self) -> str:
        """The name that the client gives itself, without what follows its version."""
        return self.client.split(" ")[0][:24] or "?"

    @property
    def heading(self) -> str:
        """The time, the program, the API and the model."""
        return f"{self.clock} {self.program}  {self.path[:30]}  {self.model}"

    def facts(self, number: Numbers, seconds: Callable[[float], str]) -> list[str]:
        """Return sentences about the request, without its error and its prefix."""

        def counted(count: int, word: str) -> str:
            return f"{number(count)} {word}{'' if count == 1 else 's'}"

        asked = f"{counted(self.messages, 'message')}, {counted(self.tools, 'tool')}"
        if not self.messages:
            asked = "a text to continue"
        cached = f"{number(self.cached_tokens)} of them cached"
        first_token = seconds(self.queue_seconds + self.prompt_seconds)
        written = f"{number(self.completion_tokens)} in {seconds(self.decode_seconds)}"
        outcome = self.outcome.replace("_", " ")
        facts = [
            f"{asked}; {counted(self.prompt_tokens, 'token')}, {cached}",
            f"first token after {first_token}, then {written}; {outcome}",
        ]
        if self.slimmed:
            characters = counted(self.slimmed, "character")
            facts.append(f"{characters} left out (agent_diet)")
        if self.calls:
            facts.append(f"calls {', '.join(self.calls)}")
        return facts


class WatchedPrompt(Answer, frozen=True, kw_only=True):
    """The prompt of a watched request, as the model's template renders it."""

    id: str
    text: str
