"""The expected format of a model's answer to one request: reasoning, tool calls, text, grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.conversation import Tool
from ...base.errors import RequestRejected
from ...base.requests import GenerateRequest
from ...base.sampling_params import Grammar
from ..structured_output.answer_grammar import AnswerGrammar, AnswerRules, ControlTags
from ..templates.reasoning_switches import reasoning_requested
from ..templates.reasoning_tags import detect_reasoning_tags
from ..tokenization.tokenizer import Tokenizer
from ..tool_calls.format_detection import HARMONY, detect_call_format
from .answer_parser import AnswerParser
from .harmony_parser import FINAL, TURN, HarmonyParser
from .tagged_answer_parser import TaggedAnswerParser


@dataclass(frozen=True)
class AnswerFormat:
    """The grammar that an answer must match, and how it is parsed.

    Without `new_parser` the whole answer is text. Control tokens in `visible` are parsed by their
    spelling; others produce nothing. The tokens in `ends_reasoning` end reasoning that exceeds its
    budget. If only leading calls are constrained, `constrained_tools` has the names of the tools:
    an answer that begins otherwise drops the grammar.
    """

    grammar: Grammar | AnswerGrammar | None = None
    new_parser: Callable[[], AnswerParser] | None = None
    visible: frozenset[int] = frozenset()
    ends_reasoning: tuple[int, ...] = ()
    constrained_tools: frozenset[str] = frozenset()


class AnswerFormats:
    """The answer formats of one model, detected from its chat template; used from one thread."""

    def __init__(
        self, tokenizer: Tokenizer, template: str | None, *, constrains_calls: bool = True
    ) -> None:
        """With `constrains_calls`, a call that a small model begins is constrained to its tool's
        schema.
        """
        self._tokenizer = tokenizer
        self._constrains_calls = constrains_calls
        self._controls = ControlTags(tokenizer)
        self._format = detect_call_format(template, tokenizer)
        self._tags = detect_reasoning_tags(template, tokenizer)

    def of(self, request: GenerateRequest, tail: str) -> AnswerFormat:
        """Return the format for one request, whose prompt ends with the text `tail`.

        Raises `RequestRejected` for tools that cannot be called as the request demands.
        """
        if request.messages is None or request.raw:
            return AnswerFormat(request.grammar)
        tools = [] if request.tool_choice.mode == "none" else request.tools
        if (
            not tools
            and self._tags is None
            and not self._format.dropped
            and self._format is not HARMONY
        ):
            return AnswerFormat(request.grammar)
        thinking = self._tags is not None and self._tags.left_open(tail, _begun(request))
        grammar = self._grammar(request, tail, tools, thinking=thinking)
        parser = self._parser(request, tail, tools, thinking=thinking)
        ends_reasoning = self._reasoning_end(tools) if request.reasoning.budget is not None else ()
        optional = isinstance(grammar, AnswerGrammar) and grammar.optional
        names = frozenset(tool.name for tool in tools) if optional else frozenset[str]()
        return AnswerFormat(grammar, parser, self._visible, ends_reasoning, names)

    def _reasoning_end(self, tools: list[Tool]) -> tuple[int, ...]:
        """Return the tokens that end reasoning and begin the answer."""
        if self._tags is None:
            return ()
        text = "\n" + self._tags.ending
        if self._format is HARMONY:
            # If a call may follow, the model itself decides what comes.
            text = self._tags.ending + ("" if tools else FINAL)
        return tuple(self._tokenizer.encode(text, add_special=False, parse_special=True))

    def _parser(
        self, request: GenerateRequest, tail: str, tools: list[Tool], *, thinking: bool
    ) -> Callable[[], AnswerParser]:
        """Return a factory of parsers for the sequences of a request."""
        parallel = request.several_calls
        names = request.tool_choice.names
        if self._format is HARMONY:
            begun = tail.rpartition(TURN)[2] if TURN in tail else ""
            return lambda: HarmonyParser(tools, parallel=parallel, names=names, begun=begun)
        return lambda: TaggedAnswerParser(
            self._format,
            self._tags,
            tools,
            parallel=parallel,
            names=names,
            thinking=thinking,
            lenient=request.grammar is None or not self._format.openers,
        )

    @property
    def _visible(self) -> frozenset[int]:
        tags = () if self._tags is None else (*self._tags.opens, *self._tags.closes)
        return self._controls.visible((*self._format.tags, *tags))

    def _grammar(
        self, request: GenerateRequest, tail: str, tools: list[Tool], *, thinking: bool
    ) -> Grammar | AnswerGrammar | None:
        """Return the grammar of reasoning, calls and text, if the request constrains any of
        them.
        """
        required = request.tool_choice.mode == "required"
        rules = AnswerRules(self._controls)
        if request.grammar is None and not (tools and required):
            # Free text contains no control tokens, so the format's calls must need none.
            strays = self._format.strays and self._tags is None and not self._visible
            if not (tools and strays and self._constrains_calls) or request.continues:
                return None
            parallel = request.several_calls
            start = rules.calls_or_text(_named(request, tools), parallel=parallel)
            return rules.finish(start, optional=True)
        reasoning = ""
        if self._tags is not None and (thinking or self._may_reason(request, tail)):
            reasoning = rules.reasoning(self._tags, begun=thinking)
        if not (reasoning or tools or self._format.before_text):
            return request.grammar
        choices: list[str] = []
        if tools:
            named = _named(request, tools)
            parallel = request.several_calls
            choices.append(rules.calls(self._format, named, parallel=parallel))
        if request.grammar is not None and not (tools and required):
            choices.append(rules.content(self._format))
        return rules.finish(f"{reasoning} ({' | '.join(choices)})", request.grammar)

    def _may_reason(self, request: GenerateRequest, tail: str) -> bool:
        """Return whether the answer may begin with reasoning that the prompt did not begin."""
        wanted = reasoning_requested(request.reasoning)
        if wanted is False or request.continues or self._tags is None:
            return False
        return not tail.rstrip().endswith(self._tags.closes)


def _begun(request: GenerateRequest) -> str:
    """Return the reasoning that the answer continues."""
    last = request.messages[-1] if request.messages and request.continues else None
    return last.reasoning if last is not None and not last.content else ""


def _named(request: GenerateRequest, tools: list[Tool]) -> list[Tool]:
    """Return the tools that may be called."""
    names = request.tool_choice.names
    found = [tool for tool in tools if not names or tool.name in names]
    if not found:
        raise RequestRejected(
            f"The tool {names[0]!r} that must be called is not among the tools.",
            hint="Name a tool from 'tools', or leave the choice to the model.",
            param="tool_choice",
        )
    return found
