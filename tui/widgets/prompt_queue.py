"""`PromptQueue`: prompts that wait for the answer before them."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ..chats.message import QueuedPrompt
from ..text.terminal_safe_text import clean

SHOWN = 3


class PromptQueue(Widget):
    """Lists the waiting prompts above the composer; hidden while there are none."""

    @dataclass
    class TakenBack(Message):
        """A waiting prompt was clicked, and waits no longer."""

        prompt: QueuedPrompt

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._prompts: list[QueuedPrompt] = []

    def __len__(self) -> int:
        return len(self._prompts)

    def __bool__(self) -> bool:
        # A widget is there even when it holds nothing; Textual asks for its truth.
        return True

    @property
    def texts(self) -> list[str]:
        """What waits, the first first."""
        return [prompt.text for prompt in self._prompts]

    @property
    def first(self) -> QueuedPrompt | None:
        """The prompt whose turn is next."""
        return self._prompts[0] if self._prompts else None

    def push(self, prompt: QueuedPrompt) -> None:
        """Put a prompt at the end."""
        self._prompts.append(prompt)
        self._changed()

    def next(self) -> QueuedPrompt | None:
        """Take the first prompt."""
        prompt = self._prompts.pop(0) if self._prompts else None
        self._changed()
        return prompt

    def take_back(self) -> QueuedPrompt | None:
        """Take the last prompt."""
        prompt = self._prompts.pop() if self._prompts else None
        self._changed()
        return prompt

    def take_all(self) -> list[QueuedPrompt]:
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

    def on_click(self, event: events.Click) -> None:
        """Give the prompt back that was clicked."""
        if event.y < min(len(self._prompts), SHOWN):
            prompt = self._prompts.pop(event.y)
            self._changed()
            self.post_message(self.TakenBack(prompt))

    def render(self) -> RenderResult:
        lines: list[Content] = []
        for index, prompt in enumerate(self._prompts[:SHOWN]):
            last = index == len(self._prompts) - 1
            lines.append(self._line(prompt, "  ↑ takes it back" if last else ""))
        if len(self._prompts) > SHOWN:
            lines.append(Content(f"  and {len(self._prompts) - SHOWN} more").stylize("$muted"))
        return Content("\n").join(lines)

    def _line(self, prompt: QueuedPrompt, hint: str) -> Content:
        count = len(prompt.attachments)
        along = f"  + {count} attachment{'s' if count > 1 else ''}" if count else ""
        width = self.size.width
        text = Content(" ".join(clean(prompt.text).split()))
        text = text.truncate(max(8, width - 8 - len(along) - len(hint)), ellipsis=True)
        parts = [("↳ next  ", "$secondary"), (text.plain, "$muted"), (along, "$secondary")]
        return Content.assemble(*parts, (hint, "$edge")).truncate(width, ellipsis=True)
