"""From OpenAI's request bodies to checked jobs: pure, and strict where an answer would change."""

from __future__ import annotations

import secrets
from typing import Any, cast

import msgspec

from ingle.backends.base.conversation import Infill, Reasoning, TemplateVariables
from ingle.backends.base.requests import GenerateRequest

from ....errors import InvalidBody, UnsupportedField
from ...ingle_options import RequestOrigin, routing_preference_of
from ...job import Job
from ...request_options import (
    check_token_ids,
    choice_grammar,
    merge_sampling,
    only_one,
    regex_grammar,
    response_format_grammar,
    schema_grammar,
    stop_strings,
    structured_outputs_grammar,
    template_effort,
    text_grammar,
    token_limit,
)
from .messages import chat_messages
from .request_types import (
    ChatCompletionRequest,
    CommonRequest,
    PlainCompletionRequest,
    ReasoningField,
    ThinkingSwitch,
    called_functions,
    called_tools,
)

MAX_PROMPTS = 64


def chat_job(body: ChatCompletionRequest, origin: RequestOrigin) -> Job:
    """Check a chat; raises `InvalidBody` and `UnsupportedField`."""
    if body.legacy:
        tools, choice = called_functions(body.functions, body.function_call)
    else:
        tools, choice = called_tools(body.tools, body.tool_choice)
    request = GenerateRequest(
        id=f"chatcmpl-{secrets.token_hex(12)}",
        messages=chat_messages(body.messages),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=body.parallel_tool_calls is not False and not body.legacy,
        reasoning=_reasoning(body),
        template_variables=_template_variables(body),
        continues=_continues(body),
        max_tokens=token_limit(body.max_completion_tokens, body.max_tokens, body.n_predict),
        logprobs=_chat_logprobs(body),
        prompt_logprobs=body.prompt_logprobs,
        **_common(body, origin, body.n),
    )
    return Job(
        model=body.model or "",
        request=request,
        options=body,
        preference=routing_preference_of(body.ingle),
        slot=-1 if body.id_slot is None else body.id_slot,
    )


def completion_job(body: PlainCompletionRequest, origin: RequestOrigin) -> Job:
    """Check a plain completion; raises `InvalidBody` and `UnsupportedField`."""
    prompts = _prompts(body.prompt)
    # A boolean is what chats have there; true asks for the chosen tokens only.
    logprobs = None if body.logprobs is False else body.logprobs
    candidates = _candidates(body)
    # The text of token ids is known from their scores.
    scores = body.echo and (logprobs is not None or any(isinstance(p, list) for p in prompts))
    if scores and (body.stream or candidates > 1 or any(isinstance(p, Infill) for p in prompts)):
        raise UnsupportedField(
            "'echo' with 'logprobs' or token ids is supported for one whole answer to a prompt.",
            hint="Leave 'stream', 'n', 'best_of' and 'suffix' out.",
            param="echo",
        )
    if logprobs is None and candidates > (body.n or 1):
        logprobs = 0
    request = GenerateRequest(
        id=f"cmpl-{secrets.token_hex(12)}",
        max_tokens=token_limit(body.max_tokens, body.n_predict),
        logprobs=0 if logprobs is True else logprobs,
        prompt_logprobs=_prompt_alternatives(body) if scores else body.prompt_logprobs,
        **_common(body, origin, candidates),
    )
    return Job(
        model=body.model or "",
        request=request,
        prompts=_gaps(prompts, body),
        options=body,
        preference=routing_preference_of(body.ingle),
        slot=-1 if body.id_slot is None else body.id_slot,
    )


def _common(body: CommonRequest, origin: RequestOrigin, answers: int | None) -> dict[str, Any]:
    fills_gap = isinstance(body, PlainCompletionRequest) and body.suffix
    if body.prompt_logprobs is not None and (body.stream or (answers or 1) > 1 or fills_gap):
        raise UnsupportedField(
            "'prompt_logprobs' is supported for one whole answer to a prompt.",
            hint="Leave 'stream', 'n', 'best_of' and 'suffix' out.",
            param="prompt_logprobs",
        )
    # Checked now, so that a wrong key is refused before a model is loaded for it.
    merge_sampling(body, {})
    check_token_ids(body.stop_token_ids or [], "stop_token_ids")
    return {
        **origin.request_fields(body.ingle, body.service_tier),
        "stop": stop_strings(body.stop),
        "n": answers or 1,
        "reports_progress": bool(body.stream and body.return_progress),
        "ignore_eos": bool(body.ignore_eos),
        "stop_token_ids": body.stop_token_ids or [],
        "grammar": only_one(
            [
                response_format_grammar(body.response_format),
                structured_outputs_grammar(body.structured_outputs),
                text_grammar(body.grammar),
                schema_grammar(body.json_schema, "json_schema"),
                schema_grammar(body.guided_json, "guided_json"),
                regex_grammar(body.guided_regex, "guided_regex"),
                choice_grammar(body.guided_choice, "guided_choice"),
                text_grammar(body.guided_grammar, "guided_grammar"),
            ]
        ),
    }


def _continues(body: ChatCompletionRequest) -> bool:
    """Whether the answer continues the last message, as in vLLM's API."""
    is_answer = body.messages[-1].role == "assistant"
    if not body.continue_final_message:
        return is_answer and body.add_generation_prompt is False
    if body.add_generation_prompt or not is_answer:
        raise InvalidBody(
            "'continue_final_message' needs a last message of the assistant, and no "
            "'add_generation_prompt'.",
            param="continue_final_message",
        )
    return True


def _candidates(body: PlainCompletionRequest) -> int:
    """The number of answers generated for each prompt; the `n` likeliest are returned."""
    wanted = body.n or 1
    candidates = body.best_of or wanted
    if candidates < wanted:
        raise InvalidBody(
            f"'best_of' is {candidates}, and 'n' asks for {wanted}.",
            hint="'best_of' must be at least 'n'.",
            param="best_of",
        )
    if body.stream and candidates > wanted:
        raise InvalidBody(
            "Which answers are the best is known at the end: 'best_of' cannot be streamed.",
            hint="Leave 'stream' or 'best_of' out.",
            param="best_of",
        )
    return candidates


def _gaps(
    prompts: tuple[str | list[int], ...], body: PlainCompletionRequest
) -> tuple[str | list[int] | Infill, ...]:
    """The prompts, each with the suffix if the request has one."""
    if not body.suffix:
        return prompts
    gaps = tuple(Infill(text, body.suffix) for text in prompts if isinstance(text, str))
    if len(gaps) < len(prompts):
        raise UnsupportedField(
            "'suffix' is not supported for a prompt of token ids.",
            hint="Send the prompt as text.",
            param="suffix",
        )
    return gaps


def _chat_logprobs(body: ChatCompletionRequest) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidBody(
            "'top_logprobs' asks for nothing without 'logprobs'.",
            hint="Set 'logprobs' to true.",
            param="top_logprobs",
        )
    return None


def _prompt_alternatives(body: PlainCompletionRequest) -> int:
    """The alternatives of each token of a prompt that is echoed with its log-probabilities."""
    echoed = 0 if isinstance(body.logprobs, bool) else body.logprobs or 0
    return max(echoed, body.prompt_logprobs or 0)


def _prompts(prompt: str | list[str | int | list[int]]) -> tuple[str | list[int], ...]:
    if isinstance(prompt, str):
        return (prompt,)
    if not prompt or (len(prompt) > MAX_PROMPTS and not isinstance(prompt[0], int)):
        raise InvalidBody(
            f"'prompt' must hold between 1 and {MAX_PROMPTS} prompts.", param="prompt"
        )
    kinds = {type(item) for item in prompt}
    if len(kinds) > 1:
        raise InvalidBody(
            "'prompt' mixes text and token ids.",
            hint="Send text, token ids, or a list of either.",
            param="prompt",
        )
    if kinds == {int}:
        return (_token_ids(cast("list[int]", prompt)),)
    if kinds == {str}:
        return tuple(cast("list[str]", prompt))
    return tuple(_token_ids(ids) for ids in cast("list[list[int]]", prompt))


def _token_ids(ids: list[int]) -> list[int]:
    if not ids:
        raise InvalidBody("'prompt' holds an empty list of token ids.", param="prompt")
    check_token_ids(ids, "prompt")
    return ids


def _reasoning(body: ChatCompletionRequest) -> Reasoning:
    given, thinking = body.reasoning or ReasoningField(), body.thinking or ThinkingSwitch()
    effort = given.effort or body.reasoning_effort
    budgets = (
        given.max_tokens,
        body.thinking_budget_tokens,
        body.reasoning_budget_tokens,
        body.reasoning_budget,
        body.thinking_token_budget,
        body.thinking_budget,
        thinking.budget_tokens,
    )
    budget = token_limit(*budgets)
    switch = (body.chat_template_kwargs or {}).get("enable_thinking")
    switches = (
        given.enabled,
        body.enable_thinking,
        {"enabled": True, "disabled": False}.get(thinking.type or ""),
        switch if isinstance(switch, bool) else None,
        None if effort is None else effort != "none",
        None if budget is None else budget > 0,
    )
    enabled = next((switch for switch in switches if switch is not None), None)
    return Reasoning(enabled, template_effort(effort), budget)


def _template_variables(body: ChatCompletionRequest) -> TemplateVariables:
    variables = body.chat_template_kwargs or {}
    try:
        msgspec.msgpack.encode(variables)
    except (OverflowError, RecursionError) as error:
        raise InvalidBody(
            "'chat_template_kwargs' holds a number that is too large, or is nested too deeply.",
            param="chat_template_kwargs",
        ) from error
    return variables
