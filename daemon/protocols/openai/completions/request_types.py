"""The bodies of chats and plain completions, as far as they are served."""

from __future__ import annotations

from typing import Any

from .common_request import AnswerLength, ChoiceCount, CommonRequest, LogprobCount
from .messages import Conversation
from .reasoning import ReasoningFields
from .tools import FunctionChoiceField, FunctionSpec, ToolChoiceField, ToolSpec


class ChatCompletionRequest(ReasoningFields, kw_only=True):
    """The body of `POST /v1/chat/completions`; the fields without a type are refused if used.

    `functions` and `function_call` are what came before `tools`, and answered in their own form.
    """

    messages: Conversation
    max_completion_tokens: AnswerLength | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionSpec] | None = None
    function_call: FunctionChoiceField | None = None
    logprobs: bool | None = None
    top_logprobs: LogprobCount | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    modalities: Any = None
    audio: Any = None
    web_search_options: Any = None

    @property
    def legacy(self) -> bool:
        """Whether calls are told in the form that came before `tools`."""
        return bool(self.functions) and not self.tools


class CompletionRequest(CommonRequest, kw_only=True):
    """The body of `POST /v1/completions`; with a `suffix` the answer stands before it."""

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None
    suffix: str | None = None
    logprobs: LogprobCount | bool | None = None
    best_of: ChoiceCount | None = None
