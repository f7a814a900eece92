"""Steps through earlier prompts, and back to the draft."""

from __future__ import annotations

from collections.abc import Iterable


class InputHistory:
    """Steps through the prompts that contain the typed text, the draft being the newest."""

    def __init__(self, draft: str, prompts: Iterable[str]) -> None:
        """`prompts` are newest first; duplicates are skipped."""
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
        """Return the composer's text at this step."""
        return self.draft if self._at < 0 else self._found[self._at]

    @property
    def place(self) -> str:
        """Return the position in words."""
        if self._at < 0:
            return ""
        where = f"earlier prompt {self._at + 1}/{len(self._found)}"
        return f"{where} with “{self._word}”" if self._word else where

    @property
    def is_at_draft(self) -> bool:
        """Return whether the position is the draft."""
        return self._at < 0

    def older(self) -> bool:
        """Step to an older prompt; return whether there was one."""
        if self._at + 1 >= len(self._found):
            return False
        self._at += 1
        return True

    def newer(self) -> bool:
        """Step to a newer prompt or the draft; return whether there was one."""
        if self._at < 0:
            return False
        self._at -= 1
        return True
