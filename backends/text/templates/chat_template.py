"""Turns a conversation into the prompt a model was trained on."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import msgspec

from ...base.conversation import ChatMessage, Tool
from ...base.errors import RequestRejected
from .message_variants import MessageVariant, message_forms
from .template_errors import LimitExceeded, TemplateError, TemplateRefused
from .template_helper import RenderLimits
from .template_probe import probe_habits
from .template_renderer import TemplateRenderer
from .template_traits import TemplateHabits, names_thoughts, names_tools

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LONGEST_SOURCE = 2**20
HOSTILE_SECONDS = 10.0
"""How long a template is not tried again that overstepped a limit with our own short messages."""
RESERVED_VARIABLES = frozenset(
    {
        "add_generation_prompt",
        "bos_token",
        "caller",
        "continues",
        "dict",
        "eos_token",
        "loop",
        "messages",
        "namespace",
        "raise_exception",
        "range",
        "self",
        "strftime_now",
        "super",
        "tools",
        "varargs",
    }
)


class ChatTemplate:
    """A model's Jinja chat template, rendered as transformers does, in a bounded helper process.

    Thread-safe and synchronous. The first call starts the helper and waits for it; `start` lets
    that happen in the background. A conversation that the template refuses is tried again with
    consecutive messages of one role merged, and with system text at the head of the next user
    message. A probe finds out what the template drops silently: system messages, which are then
    moved likewise, or tools and calls of them, which are then told in words. It also finds out
    whether content is wanted as typed parts, and how calls are.
    """

    def __init__(
        self, source: str, *, bos_token: str, eos_token: str, limits: RenderLimits | None = None
    ) -> None:
        self.source = source
        self._bos_token = bos_token
        self._eos_token = eos_token
        self._limits = limits or RenderLimits()
        self._renderer = TemplateRenderer(source, self._limits)
        self._habits: TemplateHabits | None = None
        self._overstepped: tuple[float, LimitExceeded] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def calls_tools(self) -> bool:
        """Whether its source speaks of tools."""
        return names_tools(self.source)

    @property
    def reasons(self) -> bool:
        """Whether its source speaks of thoughts before an answer."""
        return names_thoughts(self.source)

    @property
    def pid(self) -> int | None:
        """The helper process, while there is one."""
        return self._renderer.pid

    def start(self) -> None:
        """Start the helper without waiting for it."""
        with self._lock:
            self._refuse_if_closed()
            self._renderer.start()

    def check(self) -> None:
        """Compile and probe the template; raises `TemplateError` where it is broken or hostile."""
        with self._lock:
            self._make_ready()

    def render(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        *,
        add_generation_prompt: bool = True,
        continues: bool = False,
        **variables: object,
    ) -> str:
        """The prompt; `variables` are the template's own switches, such as `enable_thinking`.

        With `continues` it ends where the last message does. Raises `TemplateRefused` where the
        template cannot express the messages, `TemplateError` where it fails or oversteps a limit,
        `RequestRejected` for a reserved variable or no text.
        """
        refuse_reserved(variables)
        context = self._context(add_generation_prompt and not continues) | variables
        mark = ""
        if continues and messages:
            # What stands behind the last message is cut off, and nothing before it is touched:
            # templates that trim it would otherwise take a space from its end.
            mark = f"[{secrets.token_hex(8)}]"
            messages = [*messages[:-1], _marked(messages[-1], mark)]
        with self._lock:
            try:
                self._make_ready()
                return self._render_first_fit(messages, tools, context, mark)
            except UnicodeEncodeError as error:
                raise RequestRejected(
                    "The messages hold a lone surrogate, which is no Unicode text.",
                    hint="Send whole UTF-16 pairs, or leave the character out.",
                    param="messages",
                ) from error
            except (OverflowError, RecursionError) as error:
                raise RequestRejected(
                    "The tools, calls or template variables hold a number that is too large, or "
                    "are nested too deeply.",
                    hint="Send whole numbers of at most 64 bits, and flatter schemas.",
                    param="tools",
                ) from error

    def close(self) -> None:
        """End the helper; later renders raise `TemplateError`."""
        with self._lock:
            self._closed = True
            self._renderer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _make_ready(self) -> None:
        self._refuse_if_closed()
        if len(self.source) > LONGEST_SOURCE:
            raise TemplateError("The model's chat template is longer than a million characters.")
        if self._overstepped is not None and time.monotonic() < self._overstepped[0]:
            raise self._overstepped[1].with_traceback(None)
        try:
            self._renderer.compile()
            if self._habits is None:
                self._habits = self._probe()
        except UnicodeEncodeError as error:
            raise TemplateError("The model's chat template holds a lone surrogate.") from error
        except LimitExceeded as error:
            # Whoever waits for the lock, or asks again at once, need not wait as long again.
            self._overstepped = time.monotonic() + HOSTILE_SECONDS, error
            raise

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise TemplateError(
                "The model is being unloaded.", hint="Send the request again to load it anew."
            )

    def _render_first_fit(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool],
        context: Mapping[str, object],
        mark: str,
    ) -> str:
        """The first form that the template accepts; raises the first error if there is none.

        Some fail at what others refuse.
        """
        refusal: TemplateRefused | TemplateError | None = None
        deadline = time.monotonic() + self._limits.seconds
        for form in message_forms(messages, tools, self._habits or TemplateHabits()):
            seconds = deadline - time.monotonic()
            if refusal is not None and seconds <= 0:
                break
            try:
                text = self._render_form(form, context, seconds)
                return text if not mark else _cut(text, mark)
            except LimitExceeded:
                raise
            except (TemplateRefused, TemplateError) as error:
                refusal = refusal or error
        raise refusal or TemplateError("The conversation has no form that could be rendered.")

    def _render_form(
        self, form: MessageVariant, context: Mapping[str, object], seconds: float
    ) -> str:
        variables = {**context, **form.variables, "messages": form.messages}
        return self._renderer.render(variables, form.characters, seconds)

    def _probe(self) -> TemplateHabits:
        """The template's habits; the usual ones where it fails, since requests will say how."""
        deadline = time.monotonic() + self._limits.seconds

        def render(form: MessageVariant) -> str | None:
            try:
                return self._render_form(form, self._context(True), deadline - time.monotonic())
            except TemplateRefused:
                return None

        try:
            return probe_habits(render, self.source)
        except LimitExceeded:
            raise
        except TemplateError:
            return TemplateHabits()

    def _context(self, add_generation_prompt: bool) -> dict[str, object]:
        # transformers always defines the last two, so templates compare them with none.
        return {
            "bos_token": self._bos_token,
            "eos_token": self._eos_token,
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }


def default_template(has_token: Callable[[str], bool]) -> str | None:
    """ChatML for a model whose vocabulary was made for it, else None."""
    return CHATML if has_token("<|im_start|>") and has_token("<|im_end|>") else None


def _marked(message: ChatMessage, mark: str) -> ChatMessage:
    """The message with the mark at its end, or at that of thoughts that nothing follows."""
    if message.reasoning and not message.content:
        return msgspec.structs.replace(message, reasoning=message.reasoning + mark)
    return msgspec.structs.replace(message, content=message.content + mark)


def _cut(text: str, mark: str) -> str:
    """What stands before the mark."""
    before, found, _ = text.rpartition(mark)
    if not found:
        raise TemplateRefused("the last message leaves no trace in the prompt")
    return before


def refuse_reserved(variables: Mapping[str, object]) -> None:
    """Raise `RequestRejected` for a variable that is not the client's to set."""
    for name in variables:
        if name in RESERVED_VARIABLES or name.startswith("_") or not name.isidentifier():
            raise RequestRejected(
                f"The chat template variable {name!r} is set by ingle itself.",
                hint="Leave it out; switches of the template such as `enable_thinking` may be set.",
                param="chat_template_kwargs",
            )
