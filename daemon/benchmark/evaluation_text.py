"""Text of an `ingle eval` report: a smaller model compared with a fuller one."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..terminal.terminal_output import format_seconds, strip_control_characters

if TYPE_CHECKING:
    from ingle.backends.jobs.evaluation.messages import EvaluationReport, Interval, PromptResult

_NARROWEST, _WIDEST = 60, 140
_SHOWN_PARTINGS = 5


def eval_text(
    name: str, fuller: str, report: EvaluationReport, columns: int, *, whole: bool = False
) -> str:
    """Return the figures, the answers that diverge most (with `whole`: every prompt), and the
    verdict.
    """
    columns = min(max(columns, _NARROWEST), _WIDEST)
    lines = [f"{strip_control_characters(name)} against {strip_control_characters(fuller)}", ""]
    for label, fact in _facts(report):
        wrapped = textwrap.wrap(fact, columns - 20)
        lines += [f"{label if not at else '':<19} {line}" for at, line in enumerate(wrapped)]
    parted = [result for result in report.results if whole or result.parting is not None]
    parted.sort(key=lambda result: -result.statistics.mean_kl)
    for result in parted if whole else parted[:_SHOWN_PARTINGS]:
        lines += ["", *_side_by_side(result, columns)]
    hidden = len(parted) - _SHOWN_PARTINGS
    if hidden > 0 and not whole:
        lines += ["", f"{hidden} more answers diverge; --all shows them."]
    verdict = textwrap.wrap(f"Verdict: {report.verdict}.", columns)
    return "\n".join([*lines, "", *verdict])


def _facts(report: EvaluationReport) -> list[tuple[str, str]]:
    same = len(report.results) - report.partings
    surprising = report.surprising_partings
    return [
        ("prompts", f"{len(report.results)}, answered in {report.tokens} tokens"),
        ("KL divergence", f"{_range(report.kl, '.3f')} nat a token"),
        (
            "same first choice",
            f"{_range(report.agreement, '.1%')}; two samples of the fuller one agree in "
            f"{report.self_agreement:.0%}",
        ),
        (
            "perplexity",
            f"{report.perplexity:.3f}, of the fuller one {report.fuller_perplexity:.3f}",
        ),
        (
            "answers",
            f"{same} the same, {report.partings} diverge"
            + (
                f"; {surprising} of them at a word that the fuller one finds unlikely, the others "
                "no more than sampling would"
                if report.partings
                else ""
            ),
        ),
        (
            "time",
            f"{format_seconds(report.seconds)}, fuller {format_seconds(report.fuller_seconds)}",
        ),
    ]


def _range(interval: Interval, form: str) -> str:
    if interval.low == interval.high:  # of one prompt, or of identical prompts
        return f"{interval.mean:{form}}"
    return f"{interval.mean:{form}} ({interval.low:{form}} to {interval.high:{form}})"


def _side_by_side(result: PromptResult, columns: int) -> list[str]:
    head = f"KL {result.statistics.mean_kl:.3f}  "
    asked = textwrap.shorten(_flat(result.prompt), columns - len(head), placeholder=" …")
    lines = [f"{head}{asked}"]
    parting = result.parting
    if parting is None:
        return [*lines, *textwrap.wrap(f"both: {_flat(result.answer)}", columns, max_lines=4)]
    if parting.common_text.strip():
        common = textwrap.wrap(f"both: {_flat(parting.common_text)}", columns - 2)
        lines += common if len(common) <= 2 else ["both: …", common[-1]]
    width = (columns - 3) // 2
    left = [f"fuller ({parting.likeliest:.0%} its word)", *_column(parting.fuller_text, width)]
    right = [f"smaller ({parting.likely:.0%} to the fuller)", *_column(parting.text, width)]
    lines += [
        f"{one:<{width}} │ {other}".rstrip()
        for one, other in zip_longest(left, right, fillvalue="")
    ]
    return lines


def _column(text: str, width: int) -> list[str]:
    flat = _flat(text)
    return textwrap.wrap(flat, width, max_lines=5, placeholder=" …") if flat else ["(it ends here)"]


def _flat(text: str) -> str:
    return " ".join(strip_control_characters(text).split())
