"""The output of the plain chat: sentences, progress, errors, and safe text."""

from __future__ import annotations

from io import StringIO

import pytest

from ingle.tui.plain.plain_output import PlainOutput

pytestmark = pytest.mark.quick


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def out() -> StringIO:
    return StringIO()


@pytest.fixture
def output(out: StringIO, clock: Clock) -> PlainOutput:
    return PlainOutput(out, out, clock)


def test_answer_is_written_by_sentence(output: PlainOutput, out: StringIO) -> None:
    output.begin_answer("Model")
    output.answer("It is ")
    assert out.getvalue() == "Model: "
    output.answer("one. And t")
    assert out.getvalue() == "Model: It is one. "
    output.answer("wo\n\nThree")
    assert out.getvalue() == "Model: It is one. And two\n\n"
    output.end_answer()
    assert out.getvalue() == "Model: It is one. And two\n\nThree\n"


def test_numbers_are_not_split_at_the_point(output: PlainOutput, out: StringIO) -> None:
    output.begin_answer("Model")
    output.answer("Version 3.")
    output.answer("11 of it")
    assert out.getvalue() == "Model: "


def test_sentences_end_without_spaces_in_chinese(output: PlainOutput, out: StringIO) -> None:
    output.begin_answer("Model")
    output.answer("你好。我")
    assert out.getvalue() == "Model: 你好。"


def test_text_without_sentence_end_is_written_eventually(
    output: PlainOutput, out: StringIO
) -> None:
    output.begin_answer("Model")
    for _ in range(200):
        output.answer("on and ")
    written = out.getvalue().removeprefix("Model: ")
    assert len(written) > 900
    assert written.endswith("and ")


def test_no_further_writes_after_a_broken_pipe(clock: Clock) -> None:
    class Gone(StringIO):
        tries = 0

        def write(self, text: str, /) -> int:
            self.tries += 1
            raise BrokenPipeError

    gone, errors = Gone(), StringIO()
    output = PlainOutput(gone, errors, clock)
    with pytest.raises(BrokenPipeError):
        output.line("Hi")
    output.line("Hi")
    output.error("It broke.")
    assert (gone.tries, errors.getvalue()) == (1, "Error: It broke.\n")


def test_progress_is_rate_limited(output: PlainOutput, out: StringIO, clock: Clock) -> None:
    for second in range(11):
        clock.now = float(second)
        output.news(f"{second} %")
    assert out.getvalue() == "0 %\n5 %\n10 %\n"


def test_progress_limit_is_reset_by_an_answer(
    output: PlainOutput, out: StringIO, clock: Clock
) -> None:
    output.news("loading")
    output.begin_answer("Model")
    output.end_answer()
    output.news("loading")
    assert out.getvalue() == "loading\nModel: \nloading\n"


def test_error_line_ends_an_open_answer(output: PlainOutput, out: StringIO) -> None:
    output.begin_answer("Model")
    output.answer("half")
    output.error("It broke.", "Try again.")
    assert out.getvalue() == "Model: half\nError: It broke. Try again.\n"
    assert output.failures == 1


def test_control_sequences_of_models_are_removed(output: PlainOutput, out: StringIO) -> None:
    output.begin_answer("Model")
    output.answer("a\x1b]0;ti")
    output.answer("tle\x07b\x1b[31m.\n")
    output.line("\x1b[2Jname")
    assert out.getvalue() == "Model: ab.\n\nname\n"


def test_no_bell_in_a_file(output: PlainOutput, out: StringIO) -> None:
    output.bell()
    assert out.getvalue() == ""
