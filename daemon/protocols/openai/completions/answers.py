"""Converts a model's events into answers of chats and plain completions, whole and in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType, structs

from ingle.backends.base.conversation import Infill
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    PromptScores,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from ...answer_values import PromptProgress, Timings, token_logprobs
from ...job import AnswerBuilder, CollectedAnswer
from .chunk_stream import (
    FINISH_WORDS,
    ChunkStream,
    CompletionScores,
    Piece,
    chat_logprobs,
    envelope,
    prompt_logprobs,
    timings_of,
    usage_of,
)
from .request_types import ChatCompletionRequest, PlainCompletionRequest
from .types import (
    AnsweredCall,
    AnsweredFunction,
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatLogprobs,
    ChoiceDelta,
    ChunkChoice,
    CompletionChoice,
    CompletionLogprobs,
    FinishWord,
    FunctionDelta,
    TextCompletion,
    ToolCallChunk,
    Usage,
)


class ChatStream(ChunkStream):
    """The stream of a chat, which opens each choice with its role."""

    def __init__(self, collected: AnswerBuilder, body: ChatCompletionRequest) -> None:
        super().__init__(collected, body)
        self._body = body

    def _chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """Role, reasoning, content, calls and the end."""
        self._collected.count(prompt, event)
        match event:
            case Started():
                request = self._collected.job.request
                # As in OpenAI's streams: a call has no content, and a text begins empty.
                content = None if request.tool_choice.mode == "required" else ""
                for index in range(request.n):
                    yield self._chunk(index, ChoiceDelta(role="assistant", content=content))
            case PromptAdvanced():
                chunk = self._chunk(0, ChoiceDelta())
                yield structs.replace(chunk, prompt_progress=PromptProgress.of(event))
            case Finished():
                self._collected.answers[event.index].take(event)
                yield self._chunk(event.index, ChoiceDelta(), _finish_word(event, self._body))
            case Delta() | ReasoningDelta() | ToolCallStarted() | ToolCallDelta():
                self._written += len(event.token_ids)
                logprobs = chat_logprobs(event) if isinstance(event, Delta) else None
                delta = self._delta(event)
                if delta is not None and (delta.content != "" or logprobs is not None):
                    yield self._chunk(event.index, delta, logprobs=logprobs)

    def _piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        delta = self._delta(event)
        return None if delta is None else self._chunk(event.index, delta)

    def _delta(self, event: Piece | ToolCallStarted) -> ChoiceDelta | None:
        """The delta of an event; None if the answer leaves it out."""
        match event:
            case Delta():
                return ChoiceDelta(content=event.text)
            case ReasoningDelta():
                shown = self._body.shows_reasoning
                return ChoiceDelta(reasoning_content=event.text) if shown else None
            case ToolCallStarted() | ToolCallDelta():
                if not self._body.legacy:
                    return ChoiceDelta(tool_calls=[_call_chunk(event)])
                return ChoiceDelta(function_call=_function(event)) if event.call == 0 else None

    def _chunk(
        self,
        index: int,
        delta: ChoiceDelta,
        reason: FinishWord | None = None,
        logprobs: ChatLogprobs | None = None,
    ) -> msgspec.Struct:
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return self._wrap(choice, is_end=reason is not None)

    def _envelope(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            **envelope(self._collected),
            choices=choices,
            usage=usage,
            service_tier=self._body.answered_tier,
            timings=timings,
        )


def chat_completion(collected: AnswerBuilder, body: ChatCompletionRequest) -> ChatCompletion:
    """A whole chat."""
    return ChatCompletion(
        **envelope(collected),
        choices=[
            _chat_choice(index, answer, body) for index, answer in enumerate(collected.answers)
        ],
        usage=usage_of(collected),
        service_tier=body.answered_tier,
        metadata=UNSET if body.metadata is None else body.metadata,
        prompt_logprobs=prompt_logprobs(collected.scores.get(0), body.prompt_logprobs),
        timings=timings_of(collected),
    )


def _chat_choice(index: int, answer: CollectedAnswer, body: ChatCompletionRequest) -> ChatChoice:
    text, calls = "".join(answer.text), answer.calls
    answered = [
        AnsweredCall(id=c.id, function=AnsweredFunction(c.name, c.arguments)) for c in calls
    ]
    message = AssistantMessage(
        content=None if calls and not text else text,
        reasoning_content="".join(answer.reasoning if body.shows_reasoning else ()) or UNSET,
        tool_calls=answered if answered and not body.legacy else UNSET,
        function_call=answered[0].function if answered and body.legacy else UNSET,
    )
    logprobs = ChatLogprobs(token_logprobs(answer.logprobs, answer.token_bytes))
    return ChatChoice(
        index=index,
        message=message,
        logprobs=logprobs if body.logprobs else None,
        finish_reason=_finish_word(answer, body),
    )


def _finish_word(end: Finished | CollectedAnswer, body: ChatCompletionRequest) -> FinishWord:
    is_call = end.reason is FinishReason.TOOL_CALLS
    return "function_call" if body.legacy and is_call else FINISH_WORDS[end.reason]


def _call_chunk(event: ToolCallStarted | ToolCallDelta) -> ToolCallChunk:
    if isinstance(event, ToolCallDelta):
        return ToolCallChunk(index=event.call, function=_function(event))
    return ToolCallChunk(
        index=event.call, id=event.call_id, type="function", function=_function(event)
    )


def _function(event: ToolCallStarted | ToolCallDelta) -> FunctionDelta:
    if isinstance(event, ToolCallDelta):
        return FunctionDelta(arguments=event.arguments)
    return FunctionDelta(name=event.name, arguments="")


class CompletionStream(ChunkStream):
    """The stream of plain prompts; choice `i * n + j` is answer j to prompt i."""

    def __init__(self, collected: AnswerBuilder, body: PlainCompletionRequest) -> None:
        super().__init__(collected, body)
        self._echo = bool(body.echo)
        self._scores = [CompletionScores() for _ in collected.answers]

    def _chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """Text and finish chunks; with `echo` the prompt comes first."""
        self._collected.count(prompt, event)
        first = prompt * self._collected.job.request.n
        match event:
            case Started():
                if self._echo and (text := _prompt_text(self._collected, prompt)):
                    for index in range(first, first + self._collected.job.request.n):
                        yield self._chunk(index, text)
            case PromptAdvanced():
                chunk = self._chunk(first, "")
                yield structs.replace(chunk, prompt_progress=PromptProgress.of(event))
            case Delta():
                self._written += len(event.token_ids)
                logprobs = self._scores[first + event.index].take(event)
                if logprobs is not None or event.text:
                    yield self._chunk(first + event.index, event.text, logprobs=logprobs)
            case Finished():
                self._collected.answers[first + event.index].take(event)
                yield self._chunk(first + event.index, "", FINISH_WORDS[event.reason])
            case _:  # a prompt has no reasoning and no calls
                return

    def _piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        if not isinstance(event, Delta):
            return None
        return self._chunk(prompt * self._collected.job.request.n + event.index, event.text)

    def _chunk(
        self,
        index: int,
        text: str,
        reason: FinishWord | None = None,
        logprobs: CompletionLogprobs | None = None,
    ) -> msgspec.Struct:
        choice = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=reason)
        return self._wrap(choice, is_end=reason is not None)

    def _envelope(
        self,
        choices: list[CompletionChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> TextCompletion:
        return TextCompletion(
            **envelope(self._collected), choices=choices, usage=usage, timings=timings
        )


def completion(collected: AnswerBuilder, body: PlainCompletionRequest) -> TextCompletion:
    """All plain prompts, each with its text; of several answers to one, the likeliest first."""
    written, kept = collected.job.request.n, body.n or 1
    choices: list[CompletionChoice] = []
    for prompt in range(len(collected.job.prompts)):
        answers = collected.answers[prompt * written : (prompt + 1) * written]
        if kept < written:
            answers = sorted(answers, key=_mean_logprob, reverse=True)[:kept]
        echoed = _prompt_text(collected, prompt) if body.echo else ""
        scored = collected.scores.get(prompt)
        choices += [
            _completion_choice(echoed, scored, prompt * kept + number, answer, body)
            for number, answer in enumerate(answers)
        ]
    return TextCompletion(
        **envelope(collected),
        choices=choices,
        usage=usage_of(collected),
        timings=timings_of(collected),
    )


def _completion_choice(
    echoed: str,
    scored: PromptScores | None,
    index: int,
    answer: CollectedAnswer,
    body: PlainCompletionRequest,
) -> CompletionChoice:
    scores = CompletionScores()
    if scored is not None and body.echo:
        echoed_with = 0 if isinstance(body.logprobs, bool) else body.logprobs or 0
        scores.take_prompt(scored, echoed_with)
    scores.take(Delta("", index, "", [], answer.logprobs, answer.token_bytes))
    is_scored = body.logprobs is not None and body.logprobs is not False
    return CompletionChoice(
        index=index,
        text=echoed + "".join(answer.text),
        logprobs=scores.whole if is_scored else None,
        prompt_logprobs=prompt_logprobs(scored, body.prompt_logprobs),
        finish_reason=FINISH_WORDS[answer.reason],
    )


def _prompt_text(collected: AnswerBuilder, number: int) -> str:
    """The text that `echo` puts before an answer."""
    prompt = collected.job.prompts[number]
    if isinstance(prompt, Infill):
        return prompt.prefix
    if isinstance(prompt, str):
        return prompt
    scored = collected.scores[number]
    return b"".join(scored.token_bytes[token] for token in scored.token_ids).decode(
        errors="replace"
    )


def _mean_logprob(answer: CollectedAnswer) -> float:
    """The mean log-probability of the tokens, which does not depend on the length."""
    scores = [token.logprob for token in answer.logprobs]
    return sum(scores) / len(scores) if scores else 0.0
