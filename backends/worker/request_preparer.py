"""Prepares requests for the engine in a thread: templates, tokens, grammars."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..base.errors import BackendError, ContextExceeded, RequestRejected
from ..base.events import Tokenized
from ..base.picture_span import PictureSpan
from ..base.requests import GenerateRequest, TokenizeRequest
from ..base.sampling_params import Grammar
from ..engine.constraint import Constraint
from ..engine.model_runner import ModelRunner
from ..text.answers.answer_format import AnswerFormat, AnswerFormats
from ..text.prompts.message_token_counts import MessageCounter
from ..text.prompts.picture_prompt import pictures_of_request
from ..text.prompts.prompt_builder import Prompt, PromptBuilder
from ..text.structured_output.answer_grammar import AnswerGrammar
from ..text.structured_output.grammar_compiler import GrammarCompiler
from ..text.tokenization.token_list import check_known, pieces, token_list
from ..text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Arrival:
    """A request to prepare, and its time of arrival (monotonic seconds)."""

    request: GenerateRequest | TokenizeRequest
    at: float


@dataclass(frozen=True)
class Prepared:
    """A request as the engine needs it: prompt tokens, constraint and format of the answer."""

    token_ids: list[int]
    constraint: Constraint | None
    form: AnswerFormat
    pictures: tuple[PictureSpan, ...] = ()
    adapter: int = 0


@dataclass(frozen=True)
class Admitted:
    """The outcome of preparing a request: the prepared request, or the error."""

    arrival: Arrival
    outcome: Prepared | Tokenized | BackendError


class RequestPreparer:
    """Renders templates, tokenises and compiles grammars, one request after the other.

    In a thread, so that a slow template or a huge prompt never delays the tokens of other requests.
    """

    def __init__(
        self,
        runner: ModelRunner,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        forms: AnswerFormats,
        *,
        is_wanted: Callable[[Arrival], bool],
        done: Callable[[Admitted], None],
    ) -> None:
        """Both callbacks are called in the thread; cancelled requests are skipped."""
        self._runner = runner
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._forms = forms
        self._grammars = GrammarCompiler(tokenizer)
        self._tokenized: tuple[GenerateRequest, str] | None = None
        self._counter = MessageCounter(tokenizer, prompts)
        self._is_wanted = is_wanted
        self._done = done
        self._executor = ThreadPoolExecutor(1, "admission")
        self._encoding = ThreadPoolExecutor(1, "pictures")

    def start(self) -> None:
        """Start the thread, which first prepares the chat template."""
        self._executor.submit(self._prepare_template)

    def put(self, arrival: Arrival) -> None:
        """Queue a request to be prepared."""
        if _has_pictures(arrival.request):
            self._encoding.submit(self._encode, arrival)
        else:
            self._executor.submit(self._run, arrival)

    def close(self) -> None:
        """End the threads after their current requests."""
        self._encoding.shutdown(cancel_futures=True)
        self._executor.shutdown(cancel_futures=True)

    def _encode(self, arrival: Arrival) -> None:
        """Encode pictures, which takes seconds, beside the preparation of other requests."""
        request = arrival.request
        if isinstance(request, TokenizeRequest):
            request = request.generate
        if request is not None:
            try:
                self._prompts.encode_pictures(request, partial(self._is_wanted, arrival))
            except Exception:
                traceback.print_exc()  # the preparation meets it again, and answers with it
        self._executor.submit(self._run, arrival)

    def _prepare_template(self) -> None:
        try:
            self._prompts.prepare()
        except Exception:
            traceback.print_exc()  # each request tries again, and gets the error

    def _run(self, arrival: Arrival) -> None:
        if self._is_wanted(arrival):
            self._done(Admitted(arrival, self._prepare(arrival.request)))
            if (tokenized := self._tokenized) is not None:
                self._tokenized = None
                self._compile_ahead(*tokenized)

    def _compile_ahead(self, request: GenerateRequest, prompt: str) -> None:
        """Compile the grammar of an answer that is likely to be requested next.

        The first one of a process takes half a second. A bad one is that request's error.
        """
        try:
            if (grammar := self._forms.of(request, prompt).grammar) is not None:
                self._constraint(grammar)
        except RequestRejected:
            return
        except Exception:
            traceback.print_exc()

    def _prepare(
        self, request: GenerateRequest | TokenizeRequest
    ) -> Prepared | Tokenized | BackendError:
        """Return the prepared request, or the error."""
        try:
            if isinstance(request, TokenizeRequest):
                return self._tokenize(request)
            _check_fields(request)
            prompt = self._prompts.build(request)
            self._check_tokens(request, prompt)
            form = self._forms.of(request, prompt.text)
            constraint = None if form.grammar is None else self._constraint(form.grammar)
            self._runner.prepare(request.sampling)
            adapter = self._runner.adapter_number(Path(request.adapter)) if request.adapter else 0
        except RequestRejected as error:
            return error
        except Exception as error:
            traceback.print_exc()
            return BackendError(f"The prompt could not be prepared: {error!r}.")
        return Prepared(prompt.token_ids, constraint, form, prompt.pictures, adapter)

    def _constraint(self, grammar: Grammar | AnswerGrammar) -> Constraint | None:
        """Return the constraint of an answer; None if an optional grammar cannot be used."""
        try:
            return self._grammars.compile(grammar)
        except RequestRejected:
            if isinstance(grammar, AnswerGrammar) and grammar.optional:
                return None
            raise

    def _tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Return the requested tokens, with the bytes of each."""
        if request.generate is None:
            return token_list(self._tokenizer, request)
        if request.divided:
            counts = self._counter.count(request.generate)
            return Tokenized(
                request.id, [], [], message_tokens=counts.messages, rest_tokens=counts.rest
            )
        prompt = self._prompts.build(request.generate)
        token_ids = prompt.token_ids
        check_known(self._tokenizer, "prompt", _text_tokens(prompt))
        if request.generate.tools:
            self._tokenized = request.generate, prompt.text
        return Tokenized(request.id, token_ids, pieces(self._tokenizer, token_ids), prompt.text)

    def _check_tokens(self, request: GenerateRequest, prompt: Prompt) -> None:
        token_ids = prompt.token_ids
        context = min(self._runner.context, request.max_context or self._runner.context)
        if len(token_ids) + max(1, request.answer_space) > context:
            raise ContextExceeded(len(token_ids), context)
        if not token_ids:
            raise RequestRejected("The prompt is empty.", param="prompt")
        check_known(self._tokenizer, "prompt", _text_tokens(prompt))
        if prompt.pictures and request.prompt_logprobs is not None:
            raise RequestRejected("The tokens of a picture have no log-probabilities.")
        check_known(self._tokenizer, "logit_bias", request.sampling.logit_bias)


def _has_pictures(request: GenerateRequest | TokenizeRequest) -> bool:
    asked = request.generate if isinstance(request, TokenizeRequest) else request
    return asked is not None and bool(pictures_of_request(asked))


def _text_tokens(prompt: Prompt) -> list[int]:
    """Return the tokens of a prompt without those of its pictures."""
    return [t for t in prompt.token_ids if t >= 0] if prompt.pictures else prompt.token_ids


def _check_fields(request: GenerateRequest) -> None:
    """Reject values that the engine cannot run with, which would end the worker."""
    if request.n < 1:
        raise RequestRejected("'n' must be at least 1.", param="n")
    if request.max_tokens is not None and request.max_tokens < 0:
        raise RequestRejected("'max_tokens' must not be negative.", param="max_tokens")
    if request.logprobs is not None and request.logprobs < 0:
        raise RequestRejected("'logprobs' must not be negative.", param="logprobs")
    if request.prompt_logprobs is not None and (request.prompt_logprobs < 0 or request.n > 1):
        raise RequestRejected(
            "The tokens of a prompt get log-probabilities only for one answer.", param="n"
        )
    if not all(request.stop):
        raise RequestRejected("A stop string must not be empty.", param="stop")
