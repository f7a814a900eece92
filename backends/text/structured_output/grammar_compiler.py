"""Compiles grammars with llguidance for a model's vocabulary."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...base.errors import RequestRejected
from ...base.sampling_params import Grammar, GrammarKind
from ..tokenization.tokenizer import Tokenizer
from .answer_grammar import AnswerGrammar
from .argument_schemas import ONE_LINE
from .json_schema_check import check_schema

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

MAX_TEXT = 2**18
"""Most characters of a grammar: longer ones take noticeable time to compile."""
MAX_GBNF = 2**15
"""A lower limit, since the GBNF converter is slow."""

_CACHED = 32
_ANCHOR = "\x02"  # a character that no vocabulary merges with the next
_WORDING = {
    "<non-verbose/>": " ",
    "NoExtensionBias": "nothing can match it",
    "Enable 'coerce_one_of' option to approximate oneOf with anyOf": (
        "where two of its branches may match; use anyOf"
    ),
    "constraints are not supported. where": "is not supported where",
}
_MAX_LEXER_STATES = 50_000  # about 100 MB


class GrammarCompiler:
    """Turns grammars into constraints; used from one thread, its constraints from any."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """The vocabulary is loaded with the first grammar, since most requests have none."""
        self._tokenizer = tokenizer
        self._vocabulary: LLTokenizer | None = None
        self._compiled = lru_cache(_CACHED)(self._compile)

    def compile(self, grammar: Grammar | AnswerGrammar) -> TokenConstraint:
        """Return a fresh constraint; raises `RequestRejected` for an unusable grammar."""
        return self._compiled(grammar).fork()

    def _compile(self, grammar: Grammar | AnswerGrammar) -> TokenConstraint:
        if isinstance(grammar, Grammar):
            return self._start(grammar, _source(grammar))
        content = None if grammar.content is None else _source(grammar.content)
        plain = Grammar(GrammarKind.LARK, grammar.lark, param="tools")  # for error messages
        try:
            return self._start(plain, _with_content(grammar.lark, content))
        except RequestRejected:
            if grammar.content is not None:
                self._compile(grammar.content)  # which reports what is wrong with it
            raise

    def _start(self, grammar: Grammar, source: str) -> TokenConstraint:
        from llguidance import LLMatcher, LLParserLimits

        vocabulary = self._vocabulary = self._vocabulary or _vocabulary(self._tokenizer)
        limits = LLParserLimits(max_lexer_states=_MAX_LEXER_STATES, verbose_errors=False)
        matcher = LLMatcher(vocabulary, source, log_level=0, limits=limits)
        constraint = TokenConstraint(matcher, self._tokenizer.vocab_size)
        # The first mask is the most expensive, and fails for grammars that match nothing.
        if matcher.is_error() or not constraint.mask().any():
            raise _rejected(grammar, matcher.get_error() or "nothing can match it")
        return constraint


class TokenConstraint:
    """Follows one sequence through a grammar; see `Constraint`."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._words = np.empty((vocab_size + 31) // 32, np.int32)

    @property
    def complete(self) -> bool:
        """See `Constraint.complete`."""
        return self._matcher.is_stopped()

    @property
    def error(self) -> str | None:
        """See `Constraint.error`."""
        return _sentence(self._matcher.get_error()) if self._matcher.is_error() else None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`."""
        return self._matcher.validate_tokens([token_id]) == 1

    def mask(self) -> NDArray[np.bool_]:
        """See `Constraint.mask`."""
        words = self._words
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._matcher.is_error():
            return np.zeros(self._vocab_size, np.bool_)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little", count=self._vocab_size)
        return bits.view(np.bool_)

    def consume(self, token_id: int) -> None:
        """See `Constraint.consume`."""
        self._matcher.consume_token(token_id)

    def fork(self) -> TokenConstraint:
        """See `Constraint.fork`."""
        return TokenConstraint(self._matcher.deep_copy(), self._vocab_size)


class _Vocabulary:
    """Adapts a tokenizer to llguidance's interface."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        ids = range(tokenizer.vocab_size)
        self.eos_token_ids = [token_id for token_id in ids if tokenizer.is_eog(token_id)]
        self.eos_token_id = self.eos_token_ids[0] if self.eos_token_ids else None
        self.special_token_ids: list[int] = []
        self.tokens = [self._bytes(token_id) for token_id in ids]
        self._anchor = self._encode(_ANCHOR)
        begun = b"".join(tokenizer.token_bytes(token_id) for token_id in self._anchor)
        self._adds_space = begun != _ANCHOR.encode()

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the token ids of a text in the middle of another, without special tokens."""
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if self._adds_space:  # added before whole texts, which this is not
            tokens = self._encode(_ANCHOR + text)
            if tokens[: len(self._anchor)] == self._anchor:
                return tokens[len(self._anchor) :]
        return self._encode(text)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special=False, parse_special=False)

    def _bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; for control tokens 0xff and their name."""
        written = self._tokenizer.token_bytes(token_id)
        return written or b"\xff" + self._tokenizer.token_bytes(token_id, special=True)


def _vocabulary(tokenizer: Tokenizer) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    vocabulary = _Vocabulary(tokenizer)
    if not vocabulary.eos_token_ids:
        raise RequestRejected(
            "This model has no token that ends an answer, so its answers cannot be constrained.",
            hint="Omit the response format, or choose another model.",
            code="invalid_grammar",
        )
    return LLTokenizer(TokenizerWrapper(vocabulary), eos_token=vocabulary.eos_token_ids)


def _source(grammar: Grammar) -> str:
    """Return the grammar in llguidance's own format; raises `RequestRejected`."""
    from llguidance import LLMatcher

    limit = MAX_GBNF if grammar.kind is GrammarKind.GBNF else MAX_TEXT
    if len(grammar.text) > limit:
        raise _rejected(grammar, f"it has {len(grammar.text)} characters, more than {limit}")
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            # A schema's own "x-guidance" overrides this.
            options: JsonCompileOptions = {**ONE_LINE, "lenient": grammar.lenient}
            try:
                check_schema(grammar.text)
                return LLMatcher.grammar_from_json_schema(grammar.text, defaults=options)
            except ValueError as error:
                raise _rejected(grammar, str(error)) from error
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(grammar.text)
        case GrammarKind.LARK:
            return LLMatcher.grammar_from_lark(grammar.text)
        case GrammarKind.GBNF:
            return LLMatcher.grammar_from_lark(_lark(grammar))


def _with_content(lark: str, content: str | None) -> str:
    """Embed a grammar as `@content`, in llguidance's own format."""
    grammars: list[dict[str, object]] = [{"lark_grammar": lark}]
    if content is not None:
        inner = json.loads(content)["grammars"][0] if content.startswith("{") else None
        grammars.append({**(inner or {"lark_grammar": content}), "name": "content"})
    return json.dumps({"grammars": grammars})


def _lark(grammar: Grammar) -> str:
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        return gbnf_to_lark(grammar.text)
    except RecursionError as error:
        raise _rejected(grammar, "it is nested too deeply") from error
    except Exception as error:  # llguidance has no narrower class for a missing rule
        raise _rejected(grammar, str(error)) from error


def _rejected(grammar: Grammar, reason: str) -> RequestRejected:
    schema = grammar.kind is GrammarKind.JSON_SCHEMA
    what = "JSON schema" if schema else f"{grammar.kind} grammar"
    return RequestRejected(
        f"This {what} cannot be used: {_sentence(reason)}.",
        hint="Simplify it, or leave it out.",
        code="invalid_schema" if schema else "invalid_grammar",
        param=grammar.param,
    )


def _sentence(text: str) -> str:
    """Shorten a multi-line message to one line without a final period."""
    for theirs, ours in _WORDING.items():
        text = text.replace(theirs, ours)
    line = " ".join(text.split())
    return line[:300].rstrip(". ")
