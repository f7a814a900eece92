"""Structured output of a small model: answers match their schemas and grammars."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler

pytestmark = pytest.mark.model

PROMPT = "<|im_start|>user\nDescribe {topic} as JSON. Be brief.<|im_end|>\n<|im_start|>assistant\n"
TOPICS = ["a cat", "Paris", "une fenêtre", "the number 7", "猫と犬", "a shopping list", "{}", "x"]
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def runner(smollm2_path: Path) -> Iterator[LlamaModelRunner]:
    spec = LoadSpec(engine="llama.cpp", path=str(smollm2_path), context=4096, slots=16)
    runner = LlamaModelRunner(spec)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def compiler(runner: LlamaModelRunner) -> GrammarCompiler:
    return GrammarCompiler(runner.tokenizer)


Ask = Callable[..., Sequence]


@pytest.fixture
def ask(runner: LlamaModelRunner, compiler: GrammarCompiler) -> Ask:
    """Return a factory of sequences that follow a grammar."""

    def make(
        grammar: Grammar,
        sampling: SamplingParams = GREEDY,
        topic: str = "a cat",
        max_tokens: int = 300,
        **fields: Any,
    ) -> Sequence:
        text = PROMPT.format(topic=topic)
        tokens = runner.tokenizer.encode(text, add_special=True, parse_special=True)
        constraint = compiler.compile(grammar)
        return Sequence(
            "r", 0, tokens, sampling, max_tokens=max_tokens, constraint=constraint, **fields
        )

    return make


def schema(value: Any) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(value))


def run(runner: LlamaModelRunner, *sequences: Sequence) -> None:
    engine = Engine(runner)
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        for output in engine.step():
            assert output.error is None


def answer(runner: LlamaModelRunner, sequence: Sequence) -> str:
    tokens = sequence.token_ids[sequence.prompt_length :]
    return b"".join(map(runner.tokenizer.token_bytes, tokens)).decode()


class SchemaGenerator:
    """Generates random schemas with short values, from all supported keywords."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._defs: dict[str, Any] = {}

    def generate(self) -> dict[str, Any]:
        """Return a schema with an object, an array or a choice at its root."""
        self._defs = {}
        root = self._random.choice([self._object, self._array, self._any_of, self._all_of])(2)
        return {**root, "$defs": self._defs} if self._defs else root

    def _value(self, depth: int) -> dict[str, Any]:
        scalar = [self._integer, self._string, self._pattern, self._format, self._enum]
        scalar += [self._const, self._multiple, self._nullable]
        nested = [self._object, self._array, self._tuple, self._any_of, self._reference, self._map]
        return self._random.choice(scalar * 2 + nested if depth else scalar)(depth)

    def _name(self) -> str:
        words = ["name", "größe", "年齢", "a b", 'q"uote', "back\\slash", "é", "🙂", "x-1", "naïve"]
        return self._random.choice(words)

    def _object(self, depth: int) -> dict[str, Any]:
        names = list(dict.fromkeys(self._name() for _ in range(self._random.randint(1, 3))))
        return {
            "type": "object",
            "properties": {name: self._value(depth - 1) for name in names},
            "required": [name for name in names if self._random.random() < 0.7],
            "additionalProperties": False,
        }

    def _all_of(self, depth: int) -> dict[str, Any]:
        parts = [self._object(depth - 1) for _ in range(2)]
        for number, part in enumerate(parts):
            part["properties"] = {f"{n}{number}": v for n, v in part["properties"].items()}
            part["required"] = [f"{name}{number}" for name in part["required"]]
            del part["additionalProperties"]
        names: dict[str, Any] = {name: {} for part in parts for name in part["properties"]}
        return {"allOf": parts, "properties": names, "additionalProperties": False}

    def _map(self, depth: int) -> dict[str, Any]:
        return {
            "type": "object",
            "patternProperties": {"^k[a-c0-9]{1,3}$": self._value(0)},
            "additionalProperties": False,
            "maxProperties": 2,
        }

    def _array(self, depth: int) -> dict[str, Any]:
        least = self._random.randint(0, 1)
        most = least + self._random.randint(0, 2)
        return {"type": "array", "items": self._value(depth - 1)} | {
            "minItems": least,
            "maxItems": most,
        }

    def _tuple(self, depth: int) -> dict[str, Any]:
        items = [self._value(depth - 1) for _ in range(2)]
        return {"type": "array", "prefixItems": items, "minItems": 2, "items": False}

    def _any_of(self, depth: int) -> dict[str, Any]:
        return {"anyOf": [self._value(depth - 1) for _ in range(self._random.randint(2, 3))]}

    def _reference(self, depth: int) -> dict[str, Any]:
        name = f"d/{len(self._defs)}~"
        self._defs[name] = {}
        self._defs[name] = self._value(depth - 1)
        return {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1")}

    def _integer(self, depth: int) -> dict[str, Any]:
        low = self._random.randint(-500, 500)
        high = low + self._random.randint(1, 999)
        return {"type": "integer", "minimum": low, "exclusiveMaximum": high}

    def _multiple(self, depth: int) -> dict[str, Any]:
        divisor = self._random.choice([2, 5, 12])
        return {"type": "integer", "multipleOf": divisor, "minimum": 0, "maximum": 10**4}

    def _string(self, depth: int) -> dict[str, Any]:
        least = self._random.randint(0, 3)
        most = least + self._random.randint(0, 6)
        return {"type": "string", "minLength": least, "maxLength": most}

    def _pattern(self, depth: int) -> dict[str, Any]:
        patterns = [
            "^[A-Z]{2,3}-[0-9]{4}$",
            r"^\d{1,3}(\.\d{1,2})?$",
            "^(rot|grün|[ab]+c){1,2}$",
            "^é?ü{2}$",
        ]
        return {"type": "string", "pattern": self._random.choice(patterns), "maxLength": 20}

    def _format(self, depth: int) -> dict[str, Any]:
        return {"type": "string", "format": self._random.choice(["ipv4", "uuid"])}

    def _enum(self, depth: int) -> dict[str, Any]:
        values = ["red", "blå", "緑", 'a "b"', "tab\t", 3, -1.5, None, True, [1, "x"], {"k": "v"}]
        return {"enum": self._random.sample(values, self._random.randint(1, 4))}

    def _const(self, depth: int) -> dict[str, Any]:
        return {"const": self._random.choice(["é\n", 42, None, {"a": [1, "ß"]}, "\u2028"])}

    def _nullable(self, depth: int) -> dict[str, Any]:
        return {"type": ["boolean", "null"]}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    """Return an object schema with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


POINT = closed("x", x={"type": "integer", "minimum": 0, "maximum": 99})
POINTS = closed("a", "b", a={"$ref": "#/$defs/point"}, b={"$ref": "#/$defs/point"})
SHORT = {"type": "string", "maxLength": 8}
SMALL = {"type": "integer", "minimum": 0, "maximum": 9}
BY_HAND: list[dict[str, Any]] = [
    {**POINTS, "$defs": {"point": POINT}},
    {"type": "string", "format": "date"},
    {"type": "string", "pattern": "^[0-9a-f]{8}$"},
    {"type": "boolean"},
    {"enum": ["only this"]},
    {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 5, "maxItems": 5},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"}, "maxItems": 3},
    closed("é", é={"const": "ü"}),
    {"anyOf": [{"type": "null"}, closed()]},
    {"oneOf": [SHORT, SMALL]},
    {"allOf": [{"type": "object", "properties": {"a": SHORT}}, closed("a", a=SHORT, b=SMALL)]},
    {"type": ["string", "null"], "enum": ["x", None]},
]


def schemas(count: int) -> list[dict[str, Any]]:
    """Return `count` different schemas."""
    generator = SchemaGenerator(20)
    found = {json.dumps(value): value for value in BY_HAND}
    while len(found) < count:
        value = generator.generate()
        found[json.dumps(value)] = value
    return list(found.values())


def assert_valid(value: dict[str, Any], text: str) -> None:
    validator: Any = Draft202012Validator(value, format_checker=FormatChecker())
    validator.validate(json.loads(text))


@pytest.mark.slow
def test_answers_to_two_hundred_schemas_validate(runner: LlamaModelRunner, ask: Ask) -> None:
    """Sixteen at a time, half of them greedy and half at temperature 1."""
    values = schemas(200)
    sequences: list[Sequence] = []
    for number, value in enumerate(values):
        free = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=number)
        topic = TOPICS[number % len(TOPICS)]
        sequences.append(ask(schema(value), GREEDY if number % 2 else free, topic))
    run(runner, *sequences)
    for value, sequence in zip(values, sequences, strict=True):
        text = answer(runner, sequence)
        assert sequence.finish_reason is FinishReason.STOP, (value, text)
        Draft202012Validator.check_schema(value)
        assert_valid(value, text)


TREE = closed(
    "value",
    value=SMALL,
    children={"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
)


@pytest.mark.slow
def test_recursive_schema_is_followed_to_any_depth(runner: LlamaModelRunner, ask: Ask) -> None:
    """Some answers are cut off, but none violates the schema."""
    value = {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}
    ends = runner.tokenizer.encode("}", add_special=False, parse_special=False)
    brief = dict.fromkeys(ends, 4.0)
    free = [SamplingParams(seed=n, logit_bias=brief if n % 2 else {}) for n in range(8)]
    sequences = [ask(schema(value), sampling, max_tokens=80) for sampling in free]
    run(runner, *sequences)
    ended = [s for s in sequences if s.finish_reason is FinishReason.STOP]
    for sequence in ended:
        assert_valid(value, answer(runner, sequence))
    assert ended
    assert any(answer(runner, sequence).count("children") > 1 for sequence in sequences)


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        (Grammar(GrammarKind.REGEX, "[0-9]{3}-[a-z]{2,5}"), "[0-9]{3}-[a-z]{2,5}"),
        (
            Grammar(GrammarKind.LARK, 'start: "yes" | "no" | "vielleicht, ä"'),
            "yes|no|vielleicht, ä",
        ),
        (Grammar(GrammarKind.GBNF, 'root ::= ([a-h] [1-8] " "?){3}'), "([a-h][1-8] ?){3}"),
        (Grammar(GrammarKind.REGEX, ""), ""),
    ],
)
def test_regex_and_other_grammars(
    runner: LlamaModelRunner, ask: Ask, grammar: Grammar, pattern: str
) -> None:
    sequences = [ask(grammar), *(ask(grammar, SamplingParams(seed=seed)) for seed in range(2))]
    run(runner, *sequences)
    for sequence in sequences:
        assert sequence.finish_reason is FinishReason.STOP
        text = answer(runner, sequence)
        assert re.fullmatch(pattern, text), text


def test_max_tokens_truncates_a_constrained_answer(runner: LlamaModelRunner, ask: Ask) -> None:
    sequence = ask(schema({"type": "string", "minLength": 200}), max_tokens=10)
    run(runner, sequence)
    assert sequence.finish_reason is FinishReason.LENGTH
    assert sequence.num_generated == 10
    assert answer(runner, sequence).startswith('"')


@pytest.mark.slow
def test_samplers_work_within_a_grammar(runner: LlamaModelRunner, ask: Ask) -> None:
    """Seeds repeat, bias applies, and penalties count generated tokens."""
    digits = Grammar(GrammarKind.REGEX, "[0-9]{12}")

    def write(**fields: Any) -> str:
        values: dict[str, Any] = {"temperature": 1.5, "seed": 3, **fields}
        sequence = ask(digits, SamplingParams(**values))
        run(runner, sequence)
        assert sequence.finish_reason is FinishReason.STOP
        return answer(runner, sequence)

    assert write() == write()
    assert write(seed=4) != write()
    seven = runner.tokenizer.encode("7", add_special=False, parse_special=False)[-1]
    assert write(logit_bias={seven: 100.0}) == "7" * 12
    greedy = write(temperature=0)
    assert len(set(write(temperature=0, presence_penalty=2.0, frequency_penalty=2.0))) > len(
        set(greedy)
    )


@pytest.mark.slow
def test_permissive_grammar_does_not_change_output(runner: LlamaModelRunner, ask: Ask) -> None:
    """A grammar that forbids nothing the model would generate changes nothing."""
    free = ask(Grammar(GrammarKind.REGEX, r"(?s:.*)"), max_tokens=24)
    plain = ask(Grammar(GrammarKind.REGEX, "x"), max_tokens=24)
    plain.constraint = None
    run(runner, free)
    run(runner, plain)
    assert free.token_ids == plain.token_ids


class AlternatingSpeculator:
    """Drafts the known answer, with a token that no grammar allows in every other step."""

    def __init__(self, truth: list[int]) -> None:
        self._truth = truth
        self.wrong = 0

    def propose(self, decoding: list[Sequence], room: int) -> Any:
        (sequence,) = decoding
        known = sequence.num_generated
        draft = self._truth[known : known + 3]
        if known % 2 and draft:
            self.wrong += 1
            draft[-1] = 0
        return {sequence: tuple(draft)}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=1, seed=5)])
def test_draft_tokens_are_checked_against_the_grammar(
    runner: LlamaModelRunner, ask: Ask, sampling: SamplingParams
) -> None:
    value = schema(closed("a", "b", a=SHORT, b=SMALL))
    plain = ask(value, sampling)
    run(runner, plain)
    drafted = ask(value, sampling)
    speculator = AlternatingSpeculator(plain.token_ids[plain.prompt_length :])
    engine = Engine(runner, speculator)
    engine.add(drafted)
    while engine.has_work:
        engine.step()
    assert answer(runner, drafted) == answer(runner, plain)
    assert speculator.wrong
    assert drafted.accepted_tokens


@pytest.mark.slow
def test_preempted_sequence_resumes_its_grammar(
    smollm2_path: Path, runner: LlamaModelRunner, ask: Ask
) -> None:
    spec = LoadSpec(engine="llama.cpp", path=str(smollm2_path), context=160, slots=4)
    small = LlamaModelRunner(spec)
    try:
        digits = Grammar(GrammarKind.REGEX, "([0-9]{4} ){16}")
        sequences = [ask(digits, topic=topic) for topic in TOPICS[:3]]
        engine = Engine(small)
        for sequence in sequences:
            engine.add(sequence)
        while engine.has_work:
            engine.step()
        assert engine.scheduler.preemptions
        for sequence in sequences:
            assert re.fullmatch("([0-9]{4} ){16}", answer(runner, sequence))
    finally:
        small.close()


def test_logprobs_ignore_the_grammar(runner: LlamaModelRunner, ask: Ask) -> None:
    """They include tokens that the grammar forbids."""
    forbidden = ask(Grammar(GrammarKind.REGEX, "[0-9]{3}"), logprobs=3)
    engine = Engine(runner)
    engine.add(forbidden)
    scores = [
        score
        for _ in range(4)
        if engine.has_work
        for o in engine.step()
        for score in o.logprobs or []
    ]
    assert [score.token_id for score in scores] == forbidden.token_ids[forbidden.prompt_length :]
    assert all(len(score.top) == 3 for score in scores)
    assert scores[0].logprob < scores[0].top[0][1]
    assert np.exp([logprob for _, logprob in scores[0].top]).sum() <= 1.0
