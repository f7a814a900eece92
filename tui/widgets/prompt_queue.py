"""`PromptQueue`: prompts that wait for the answer before them."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ..prompt import Prompt
from ..transcript.cleaning import clean

SHOWN = 3


class PromptQueue(Widget):
    """Lists the waiting prompts above the composer; hidden while there are none."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._prompts: list[Prompt] = []

    def __len__(self) -> int:
        return len(self._prompts)

    def __bool__(self) -> bool:
        # A widget is there even when it holds nothing; Textual asks for its truth.
        return True

    @property
    def first(self) -> Prompt | None:
        """The prompt whose turn is next."""
        return self._prompts[0] if self._prompts else None

    def push(self, prompt: Prompt) -> None:
        """Put a prompt at the end."""
        self._prompts.append(prompt)
        self._changed()

    def next(self) -> Prompt | None:
        """Take the first prompt."""
        prompt = self._prompts.pop(0) if self._prompts else None
        self._changed()
        return prompt

    def take_back(self) -> Prompt | None:
        """Take the last prompt."""
        prompt = self._prompts.pop() if self._prompts else None
        self._changed()
        return prompt

    def take_all(self) -> list[Prompt]:
        """Take all prompts, first one first."""
        prompts, self._prompts = self._prompts, []
        self._changed()
        return prompts

    def on_mount(self) -> None:
        """Start hidden."""
        self._changed()

    def _changed(self) -> None:
        self.display = bool(self._prompts)
        self.refresh(layout=True)

    def render(self) -> RenderResult:
        lines: list[Content] = []
        for prompt in self._prompts[:SHOWN]:
            text = Content(" ".join(clean(prompt.text).split())).stylize("$muted")
            line = Content.assemble(("↳ next  ", "$secondary"), text)
            lines.append(line.truncate(self.size.width, ellipsis=True))
        if len(self._prompts) > SHOWN:
            lines.append(Content(f"  and {len(self._prompts) - SHOWN} more").stylize("$muted"))
        return Content("\n").join(lines)
