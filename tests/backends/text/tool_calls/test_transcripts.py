"""Answers as other projects' tests have them, by family of tool calls; docs/protocols.md has the
score.

A case `expects` what those tests expect. Where it `differs`, the reason is given, and the parser
must still not agree: otherwise the reason is stale.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ingle.backends.base.conversation import ChatMessage, Tool
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.answers.answer_parser import AnswerParser

from .conftest import TOOLS, Answer, ReadAll, parameters, read

PAGE = Path(__file__).parents[4] / "docs" / "protocols.md"
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \|", re.MULTILINE)
LINE = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
OFFERED = [
    *TOOLS,
    Tool("web-search", parameters=parameters(query="string")),
    Tool("fs.read", parameters=parameters(path="string")),
    Tool("get_age", parameters=parameters(name="string")),
    Tool(
        "tune",
        parameters=parameters(
            level={"type": ["integer", "null"]},
            note={"anyOf": [{"type": "string"}, {"type": "null"}]},
            either={"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            ratio="number",
            gain={"type": "float"},
            rule={"anyOf": [{"type": "object"}, {"type": "null"}]},
            steps={"oneOf": [{"type": "array", "items": {"type": "object"}}, {"type": "null"}]},
        ),
    ),
    Tool(
        "order",
        parameters=parameters(
            buyer="integer",
            urgent="boolean",
            address=LINE | {"properties": {"town": {"type": "string"}, "zip": {"type": "integer"}}},
            lines={"type": "array", "items": LINE},
            labels={"type": "object"},
        ),
    ),
]


class Case(NamedTuple):
    """An answer of one family, and what it is read as."""

    family: str
    template: str
    tail: str
    answer: str
    text: str
    reasoning: str
    calls: list[list[Any]]
    differs: str

    def new_parser(self) -> Callable[[], AnswerParser]:
        """A factory of parsers for it."""
        request = GenerateRequest(id="r", messages=[ChatMessage("user", "x")], tools=OFFERED)
        form = AnswerFormats(ByteTokenizer(), self.template).of(request, self.tail)
        assert form.new_parser is not None
        return form.new_parser

    def agrees(self, found: Answer) -> bool:
        """Whether the parts are as expected; blanks between them are not compared."""
        calls = [[name, arguments] for name, arguments in found.calls]
        texts = found.text.split(), found.reasoning.split()
        return calls == self.calls and texts == (self.text.split(), self.reasoning.split())


def read_cases() -> list[Case]:
    cases: list[Case] = []
    for path in sorted(Path(__file__).with_name("transcripts").glob("*.toml")):
        for family in tomllib.loads(path.read_text("utf-8"))["family"]:
            for case in family["case"]:
                cases.append(
                    Case(
                        family["name"],
                        family["template"],
                        case.get("tail", family.get("tail", "")),
                        case["answer"],
                        case.get("text", ""),
                        case.get("reasoning", ""),
                        json.loads(case.get("calls", "[]")),
                        case.get("differs", ""),
                    )
                )
    return cases


CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{each.family}" for n, each in enumerate(CASES)])
def test_transcript_is_read_as_elsewhere(read_all: ReadAll, case: Case) -> None:
    found = read_all(case.new_parser(), case.answer)
    assert case.agrees(found) == (not case.differs), found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{each.family}" for n, each in enumerate(CASES)])
def test_every_split_of_a_transcript_reads_the_same(case: Case) -> None:
    new_parser, answer = case.new_parser(), case.answer
    whole = read(new_parser(), [answer])
    for cut in range(1, len(answer)):
        assert read(new_parser(), [answer[:cut], answer[cut:]]) == whole, answer[:cut]


def test_page_has_the_score_of_every_family() -> None:
    section = PAGE.read_text("utf-8").partition("### Families of tool calls")[2].partition("\n## ")
    written = {name: (int(count), int(passed)) for name, count, passed in ROW.findall(section[0])}
    counts = Counter(case.family for case in CASES)
    passed = Counter(case.family for case in CASES if not case.differs)
    assert written == {name: (counts[name], passed[name]) for name in counts}
