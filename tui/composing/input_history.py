"""`InputHistory`: the way through earlier prompts and back to the draft."""

from __future__ import annotations

from collections.abc import Iterable


class InputHistory:
    """Steps through the prompts that contain what was typed; the draft waits at the newer end."""

    def __init__(self, draft: str, prompts: Iterable[str]) -> None:
        """`prompts` are the newest first; each is met once."""
        self.draft = draft
        self._word = draft.strip().lower()
        seen = {draft.strip()}
        self._found: list[str] = []
        for prompt in prompts:
            key = prompt.strip()
            if key and key not in seen and self._word in key.lower():
                seen.add(key)
                self._found.append(prompt)
        self._at = -1

    @property
    def text(self) -> str:
        """What stands in the composer at this step."""
        return self.draft if self._at < 0 else self._found[self._at]

    @property
    def place(self) -> str:
        """Where the walk is, in words."""
        if self._at < 0:
            return ""
        where = f"earlier prompt {self._at + 1}/{len(self._found)}"
        return f"{where} with “{self._word}”" if self._word else where

    @property
    def is_at_draft(self) -> bool:
        """Whether the walk is back where it began."""
        return self._at < 0

    def older(self) -> bool:
        """Go one back in time; whether there was one."""
        if self._at + 1 >= len(self._found):
            return False
        self._at += 1
        return True

    def newer(self) -> bool:
        """Go one on in time, at last to the draft; whether there was one."""
        if self._at < 0:
            return False
        self._at -= 1
        return True
