"""TeX formulas as text: inline, display, in Markdown, and streamed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.tui.transcript.markdown.markdown_stream import MarkdownStream, render_markdown
from ingle.tui.transcript.math.math_text import math_line, math_lines

if TYPE_CHECKING:
    from ingle.tui.transcript.lines import TranscriptStyles


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        (r"E = mc^2", "E = mc²"),
        (r"\frac{a+b}{2}", "(a + b)/2"),
        (r"x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}", "x = (−b ± √(b² − 4ac))/(2a)"),
        (r"\sum_{i=1}^{n} i^2", "∑ᵢ₌₁ⁿ i²"),
        (r"e^{i\pi}+1=0", "e^(iπ) + 1 = 0"),
        (r"\alpha_i \to \beta^{n+1}", "αᵢ → βⁿ⁺¹"),
        (r"f: \mathbb{R} \to \mathbb{R}", "f : ℝ → ℝ"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "(a b; c d)"),
        (r"O(n \log n)", "O(n log n)"),
        (r"\sqrt[3]{x+1}", "∛(x + 1)"),
        (r"90^\circ", "90°"),
        (r"\vec{x}", "x\u20d7"),
        (r"\overline{ab}", "a\u0305b\u0305"),
        (r"f'(x)", "f′(x)"),
        (r"a \not= b \notin C", "a ≠ b ∉ C"),
        (r"\left( x \right)", "(x)"),
        (r"v = 5\,\text{m/s}", "v = 5 m/s"),
        (r"\{1, 2\}", "{1, 2}"),
        ("-x", "−x"),
    ],
)
def test_formula_on_one_line(source: str, rendered: str) -> None:
    assert math_line(source) == rendered


@pytest.mark.parametrize(
    "source",
    [r"\unknown{x}", r"\frac{a}", "x^", "{x", "x}", r"\begin{tikzpicture}\end{tikzpicture}", "",
     r"\begin{matrix} a", "{" * 100 + "}" * 100, "x" * 3000, r"\sqrt[3", r"\left",
     r"\vec{x\frac{a}{b}}"],
)  # fmt: skip
def test_unsupported_formula_is_rejected(source: str) -> None:
    assert math_line(source) is None


def test_display_formula_layout() -> None:
    assert math_lines(r"x = \frac{a + b}{2}", 60) == (
        "     a + b",
        "x = ───────",
        "       2",
    )
    assert math_lines(r"\sum_{i=1}^{n} i = 6", 60) == ("  n", "  ∑   i = 6", "i = 1")
    assert math_lines(r"|x| = \begin{cases} x & x \ge 0 \\ -x & x < 0 \end{cases}", 60) == (
        "      ⎧ x   x ≥ 0",
        "|x| = ⎩ −x  x < 0",
    )
    assert math_lines(r"x = \frac{a + b}{2}", 8) == ("x = (a + b)/2",)
    assert math_lines(r"\begin{aligned} a &= b \\ &= c \end{aligned}", 60) == ("a = b", "  = c")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(
    [r"\frac", "{", "}", "^", "_", "x", "1", "+", " ", r"\sqrt", "[", "]", r"\alpha", "&", r"\\",
     r"\begin{cases}", r"\end{cases}", r"\text{if}", "'", r"\hat", r"\sum", "(", ")", "漢"]
)).map("".join))  # fmt: skip
def test_any_formula_is_rendered_or_rejected(source: str) -> None:
    line = math_line(source)
    lines = math_lines(source, 60)
    if line is not None:
        assert "\\" not in line
    if lines is not None:
        assert any(lines)
        assert not any("\\" in row for row in lines)


def rendered(source: str, styles: TranscriptStyles, width: int = 60) -> list[str]:
    return [line.text.rstrip() for line in render_markdown(source, styles, width)]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("The area is $\\pi r^2$.", ["The area is πr²."]),
        ("So \\(x_1\\) and \\[y\\] and $$z$$ too.", ["So x₁ and y and z too."]),
        ("$$\nx^2\n$$", ["  x²"]),
        ("\\[\nx = 1 \\\\\ny = 2\n\\]", ["  x = 1", "  y = 2"]),
        ("$$x^2$$", ["  x²"]),
        ("- item\n\n  $$\n  x^2\n  $$", ["• item", "", "    x²"]),
        ("Before\n$$\nx\n$$\nafter", ["Before", "", "  x", "", "after"]),
        ("$\\unknown{x}$", ["\\unknown{x}"]),
    ],
)
def test_formulas_in_markdown(source: str, lines: list[str], styles: TranscriptStyles) -> None:
    assert rendered(source, styles) == lines


@pytest.mark.parametrize(
    "source",
    [
        "It costs $5 and $6.",
        "Between $5-$10, or $5/$6.",
        "US$5 and CA$7$",
        "echo $HOME/$USER and $PATH",
        "from $10 million to $20 million",
        "It was $5, not $6, or $7.",
        "a $ b $ c",
        "$$ is the process id",
        "a word (not \\maths)",
        "$5 to $6 and then $7 more",
    ],
)
def test_dollar_amounts_are_not_formulas(source: str, styles: TranscriptStyles) -> None:
    assert rendered(source, styles) == [source]


def test_markup_around_dollars_is_rendered(styles: TranscriptStyles) -> None:
    assert rendered("**$5** and **$6**", styles) == ["$5 and $6"]
    assert rendered("`$x` and `$y`", styles) == ["$x and $y"]
    assert rendered("\\[a note of mine\\]", styles) == ["[a note of mine]"]


@pytest.mark.parametrize(
    "source",
    [
        "Euler: $e^{i\\pi} + 1 = 0$ holds.",
        "Then \\(\\frac{a}{b}\\) holds.",
        "Then:\n\n$$\n\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}\n$$\n\nand so on.",
        "Then:\n\n\\[\nx = \\sqrt{2}\n\\]\n\nand so on.",
    ],
)
def test_unfinished_formulas_are_hidden(source: str, styles: TranscriptStyles) -> None:
    stream = MarkdownStream(styles, 80)
    for end in range(1, len(source) + 1):
        stream = MarkdownStream(styles, 80)
        stream.append(source[:end])
        text = "\n".join(line.text for line in stream.lines)
        assert not re.search(r"[$\\{}]", text), (source[:end], text)
    stream.finish()
    assert stream.lines == render_markdown(source, styles, 80)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["$", "$$", "\\[", "\\]", "\\(", "\\)", "x", "ab cd", "5", " ", "\n",
                         "\n\n", "- ", "```\n", "^2", "> ", "| a |\n|---|\n"])
    ).map("".join),
    st.integers(1, 9),
)  # fmt: skip
def test_streamed_formulas_equal_the_whole(
    styles: TranscriptStyles, source: str, step: int
) -> None:
    stream = MarkdownStream(styles, 60)
    for start in range(0, len(source), step):
        stream.append(source[start : start + step])
    stream.finish()
    assert stream.lines == render_markdown(source, styles, 60)
