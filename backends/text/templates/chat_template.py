"""Renders a conversation with the model's chat template."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from ...base.conversation import ChatMessage, Tool
from ...base.errors import RequestRejected
from ..tokenization.tokenizer import Tokenizer
from .message_variants import MessageVariant, TemplateTraits, message_variants
from .template_errors import LimitExceeded, TemplateError, TemplateRefused
from .template_probe import probe_traits
from .template_renderer import RenderLimits, TemplateRenderer

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LONGEST_SOURCE = 2**20
_TOOLS = re.compile(r"\b(tools|xml_tools|functions)\b")
_REASONING = re.compile(
    r"</?(seed:|mm:)?think(ing)?\b|\[THINK\]|START_THINKING|enable_thinking|reasoning_content"
    r"|<\|channel|inner_prefix|<\|think\|>"
)
HOSTILE_SECONDS = 10.0
"""Seconds before a template that exceeded a limit on our own short messages is tried again."""
RESERVED_VARIABLES = (
    *("bos_token", "caller", "continues", "dict", "eos_token", "loop", "messages", "namespace"),
    *("raise_exception", "range", "self", "strftime_now", "super", "tools", "varargs"),
    "add_generation_prompt",
)


class ChatTemplate:
    """A model's Jinja chat template, rendered as transformers does, in a bounded helper process.

    Thread-safe and synchronous. The first call starts the helper and waits for it; `start` does so
    in the background. If the template refuses a conversation, it is retried with consecutive
    messages of one role merged, and with system text moved into the next user message. A probe
    finds what the template drops silently: system messages are then moved likewise, tools and calls
    described in words. It also finds whether content is expected as typed parts, and the format of
    calls.
    """

    def __init__(
        self, source: str, *, bos_token: str, eos_token: str, limits: RenderLimits | None = None
    ) -> None:
        self.source = source
        self._bos_token = bos_token
        self._eos_token = eos_token
        self._limits = limits or RenderLimits()
        self._renderer = TemplateRenderer(source, self._limits)
        self._traits: TemplateTraits | None = None
        self._overstepped: tuple[float, LimitExceeded] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def calls_tools(self) -> bool:
        """Return whether its source mentions tools."""
        return _TOOLS.search(self.source) is not None

    @property
    def reasons(self) -> bool:
        """Return whether its source mentions reasoning."""
        return _REASONING.search(self.source) is not None

    @property
    def pid(self) -> int | None:
        """Return the helper process's id, None if it is not running."""
        return self._renderer.pid

    def start(self) -> None:
        """Start the helper without waiting for it."""
        with self._lock:
            self._refuse_if_closed()
            self._renderer.start()

    def check(self) -> None:
        """Compile and probe the template; raises `TemplateError` if it is broken or hostile."""
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
        """Return the prompt; `variables` are the template's switches, such as `enable_thinking`.

        With `continues` it ends where the last message does. Raises `TemplateRefused` if the
        template cannot express the messages, `TemplateError` if it fails or exceeds a limit,
        `RequestRejected` for a reserved variable or invalid text.
        """
        reject_reserved(variables)
        context = self._context(add_generation_prompt and not continues) | variables
        mark = ""
        if continues and messages:
            # Only text after the last message is removed: templates that trim would otherwise
            # remove a space at its end.
            mark = f"[{secrets.token_hex(8)}]"
            messages = [*messages[:-1], _marked(messages[-1], mark)]
        with self._lock:
            try:
                self._make_ready()
                return self._render_first_fit(messages, tools, context, mark)
            except UnicodeEncodeError as error:
                raise RequestRejected(
                    "The messages hold a lone surrogate, which is not valid Unicode.",
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

    def _make_ready(self) -> None:
        self._refuse_if_closed()
        if len(self.source) > LONGEST_SOURCE:
            raise TemplateError("The model's chat template is longer than a million characters.")
        if self._overstepped is not None and time.monotonic() < self._overstepped[0]:
            raise self._overstepped[1].with_traceback(None)
        try:
            self._renderer.compile()
            if self._traits is None:
                self._traits = self._probe()
        except UnicodeEncodeError as error:
            raise TemplateError("The model's chat template holds a lone surrogate.") from error
        except LimitExceeded as error:
            # Callers that wait for the lock, or retry at once, need not wait as long again.
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
        """Render the first variant that the template accepts; raises the first error if none is.

        Some templates fail where others refuse.
        """
        refusal: TemplateRefused | TemplateError | None = None
        end = self._renderer.processor_seconds + self._limits.seconds
        for variant in message_variants(messages, tools, self._traits or TemplateTraits()):
            seconds = end - self._renderer.processor_seconds
            if refusal is not None and seconds <= 0:
                break
            try:
                text = self._render_variant(variant, context, seconds)
                return text if not mark else _cut(text, mark)
            except LimitExceeded:
                raise
            except (TemplateRefused, TemplateError) as error:
                refusal = refusal or error
        raise refusal or TemplateError("The template accepts the conversation in no form.")

    def _render_variant(
        self, variant: MessageVariant, context: Mapping[str, object], seconds: float
    ) -> str:
        variables = {**context, **variant.variables, "messages": variant.messages}
        return self._renderer.render(variables, variant.characters, seconds)

    def _probe(self) -> TemplateTraits:
        """Return the template's traits; the defaults if it fails, since requests will report it."""
        end = self._renderer.processor_seconds + self._limits.seconds

        def render(variant: MessageVariant) -> str | None:
            try:
                return self._render_variant(
                    variant, self._context(True), end - self._renderer.processor_seconds
                )
            except TemplateRefused:
                return None

        try:
            return probe_traits(render, self.source)
        except LimitExceeded:
            raise
        except TemplateError:
            return TemplateTraits()

    def _context(self, add_generation_prompt: bool) -> dict[str, object]:
        # transformers always defines the last two, so templates compare them with none.
        return {
            "bos_token": self._bos_token,
            "eos_token": self._eos_token,
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }


def default_template(tokenizer: Tokenizer) -> str | None:
    """Return ChatML for a model whose vocabulary has its tokens, else None."""
    return None if None in map(tokenizer.find_token, ("<|im_start|>", "<|im_end|>")) else CHATML


def _marked(message: ChatMessage, mark: str) -> ChatMessage:
    """Return the message with the mark at its end, or at the end of its reasoning if nothing
    follows.
    """
    if message.reasoning and not message.content:
        return msgspec.structs.replace(message, reasoning=message.reasoning + mark)
    return msgspec.structs.replace(message, content=message.content + mark)


def _cut(text: str, mark: str) -> str:
    """Return the text before the mark."""
    before, found, _ = text.rpartition(mark)
    if not found:
        raise TemplateRefused("the last message leaves no trace in the prompt")
    return before


def reject_reserved(variables: Mapping[str, object]) -> None:
    """Raise `RequestRejected` for a variable that clients may not set."""
    for name in variables:
        if name in RESERVED_VARIABLES or name.startswith("_") or not name.isidentifier():
            raise RequestRejected(
                f"The chat template variable {name!r} is set by ingle itself.",
                hint="Leave it out; switches of the template such as `enable_thinking` may be set.",
                param="chat_template_kwargs",
            )
