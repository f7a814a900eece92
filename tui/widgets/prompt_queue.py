"""`PromptQueue`: the prompts that wait for the current answer."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ..chats.message import QueuedPrompt
from ..text.terminal_safe_text import clean

SHOWN = 3


class PromptQueue(Widget):
    """Lists the waiting prompts above the composer; hidden while there are none."""

    @dataclass
    class TakenBack(Message):
        """A waiting prompt was clicked, and removed from the queue."""

        prompt: QueuedPrompt

    prompts: reactive[tuple[QueuedPrompt, ...]] = reactive((), layout=True)
    """The next prompt is the first one."""

    def watch_prompts(self, prompts: tuple[QueuedPrompt, ...]) -> None:
        """Show only while a prompt waits."""
        self.display = bool(prompts)

    def on_click(self, event: events.Click) -> None:
        """Remove the clicked prompt, and hand it back."""
        at, prompts = event.y, self.prompts
        if at < min(len(prompts), SHOWN):
            self.prompts = prompts[:at] + prompts[at + 1 :]
            self.post_message(self.TakenBack(prompts[at]))

    def render(self) -> RenderResult:
        prompts, lines = self.prompts, list[Content]()
        for index, prompt in enumerate(prompts[:SHOWN]):
            last = index == len(prompts) - 1
            lines.append(self._line(prompt, "  ↑ takes it back" if last else ""))
        if len(prompts) > SHOWN:
            lines.append(Content(f"  and {len(prompts) - SHOWN} more").stylize("$muted"))
        return Content("\n").join(lines)

    def _line(self, prompt: QueuedPrompt, hint: str) -> Content:
        count = len(prompt.attachments)
        along = f"  + {count} attachment{'s' if count > 1 else ''}" if count else ""
        width = self.size.width
        text = Content(" ".join(clean(prompt.text).split()))
        text = text.truncate(max(8, width - 8 - len(along) - len(hint)), ellipsis=True)
        parts = [("↳ next  ", "$secondary"), (text.plain, "$muted"), (along, "$secondary")]
        return Content.assemble(*parts, (hint, "$edge")).truncate(width, ellipsis=True)
