"""Converts bodies of the native API into requests for a model, and validates them."""

from __future__ import annotations

from ingle.backends.base.conversation import Reasoning
from ingle.backends.base.requests import GenerateRequest

from ...errors import InvalidBody
from ...generations.generation_registry import new_generation_id
from ..ingle_options import RequestOrigin
from ..openai.completions.messages import chat_messages
from ..openai.completions.request_types import called_tools
from ..request_options import format_grammar, merge_sampling, stop_strings
from .types import GenerationRequest, NativeReasoning, TokensRequest


def generation_request(body: GenerationRequest, origin: RequestOrigin) -> GenerateRequest:
    """Return the request, without the model's recommended sampling; raises `InvalidBody`."""
    if (body.messages is None) == (body.prompt is None):
        raise InvalidBody("A generation takes either 'messages' or 'prompt'.", param="messages")
    tools, choice = called_tools(body.tools, body.tool_choice)
    fields = origin.request_fields(body.ingle or body)
    fields["private"] = origin.private or bool(body.private)
    return GenerateRequest(
        id=body.id or new_generation_id(),
        messages=chat_messages(body.messages) if body.messages is not None else None,
        prompt=body.prompt,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        reasoning=_reasoning(body.reasoning),
        continues=bool(body.continues),
        sampling=merge_sampling(body.sampling, {}),
        max_tokens=body.max_tokens,
        stop=stop_strings(body.stop),
        grammar=format_grammar(body.format),
        reports_progress=True,
        **fields,
    )


def conversation_request(body: TokensRequest) -> GenerateRequest:
    """Return a request with the prompt whose tokens are counted."""
    tools, choice = called_tools(body.tools, body.tool_choice)
    return GenerateRequest(
        id=new_generation_id(),
        messages=chat_messages(body.messages),
        tools=tools,
        tool_choice=choice,
        reasoning=_reasoning(body.reasoning),
        continues=bool(body.continues),
    )


def _reasoning(preference: NativeReasoning | None) -> Reasoning:
    return (
        Reasoning()
        if preference is None
        else Reasoning(preference.enabled, preference.effort, preference.budget)
    )
