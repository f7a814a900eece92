"""Text of a benchmark report: a table, bars, and changes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..terminal.terminal_output import format_bytes, format_table, strip_control_characters
from .bench_report import BenchReport, Change, Measurement, Samples, compare

_FIGURES = {"prefill": "prefill", "decode": "decode", "first_token": "first token"}
_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEADERS = ("COMBINATION", "PREFILL", "DECODE", "FIRST", "MEMORY", "J/TOK", "COST/1M")


def bench_text(report: BenchReport, earlier: BenchReport | None, columns: int) -> str:
    """Return the whole report."""
    runs = max((len(found.decode.runs) for found in report.measurements), default=0)
    work = f"{report.prompt_tokens} prompt tokens, {report.answer_tokens} written"
    if runs:
        work += f"; tokens/s, the median of {runs} runs"
    lines = [
        strip_control_characters(f"{report.model} ({report.quantization}) on {_device(report)}"),
        work,
        "",
        table(report, columns),
    ]
    for found in report.measurements:
        if found.error is not None:
            lines += [
                "",
                *textwrap.wrap(strip_control_characters(f"{found.name}: {found.error}"), columns),
            ]
    if drawn := bars(report, columns):
        lines += ["", *drawn]
    if earlier is not None:
        since = f"Since {strip_control_characters(earlier.measured)}:"
        lines += ["", since, *changes(compare(report, earlier)), *differences(report, earlier)]
    return "\n".join(lines)


def _device(report: BenchReport) -> str:
    found = next((m for m in report.measurements if m.error is None), None)
    return f"{found.engine}, {found.device}" if found is not None else "this machine"


def table(report: BenchReport, columns: int) -> str:
    """Return a row per variant: medians, and the spread of the runs if it is notable."""
    rows = [_row(measurement) for measurement in report.measurements]
    shown = 5  # columns; the rest needs a meter, and the last one a price
    for measurement in report.measurements:
        shown = max(shown, 5 + (measurement.joules is not None))
        shown = max(shown, 5 + 2 * (measurement.cost_per_million is not None))
    headers, rows = _HEADERS[:shown], [row[:shown] for row in rows]
    return format_table(headers, rows, right=" ".join(_HEADERS[1:]), columns=columns)


def bars(report: BenchReport, columns: int) -> list[str]:
    """Return decode tokens per second as bars over one scale."""
    found = [m for m in report.measurements if m.error is None and m.decode.runs]
    if len(found) < 2:
        return []
    most = max(measurement.decode.median for measurement in found)
    names = max(len(measurement.name) for measurement in found)
    width = max(8, columns - names - len(f"{most:.1f}") - 2)
    lines = ["decode, tokens/s"]
    for measurement in found:
        value = measurement.decode.median
        lines.append(f"{measurement.name:<{names}} {_bar(value / most, width)} {value:.1f}")
    return lines


def changes(found: Sequence[Change]) -> list[str]:
    """Return the changes beyond noise, or that there are none."""
    real = [change for change in found if change.is_real]
    if not found:
        return ["The reports have no combination in common."]
    if not real:
        return [f"None of {len(found)} figures changed beyond the noise of its runs."]
    lines: list[str] = []
    for change in real:
        word = "better" if change.is_better else "WORSE"
        lines.append(f"{word:<6} {change.name}: {_FIGURES[change.figure]} {change.ratio - 1:+.0%}")
    rest = len(found) - len(real)
    if rest:
        lines.append(f"The other {rest} figures are within the noise of their runs.")
    return lines


def differences(new: BenchReport, old: BenchReport) -> list[str]:
    """Return other differences that may have changed the figures."""
    pairs = {name: (old.machine.get(name), value) for name, value in new.machine.items()}
    pairs |= {
        "model": (old.model, new.model),
        "quantization": (old.quantization, new.quantization),
        "prompt": (str(old.prompt_tokens), str(new.prompt_tokens)),
        "answer": (str(old.answer_tokens), str(new.answer_tokens)),
    }
    busy = pairs.pop("load_after", (None, ""))
    lines = [
        strip_control_characters(f"Different {name}: {a or '-'} then, {b} now.")
        for name, (a, b) in pairs.items()
        if a != b
    ]
    then, now = map(_number, busy)
    if then is not None and now is not None and abs(then - now) >= 1:
        lines.append(f"The machine was not equally busy: load {then} then, {now} now.")
    return lines


def _number(text: str | None) -> float | None:
    """Return a number from a file that may have been edited; None if it is not one."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _row(measurement: Measurement) -> list[str]:
    if measurement.error is not None:
        return [measurement.name, *"------"]
    memory = measurement.memory_bytes + measurement.gpu_bytes
    joules, cost = measurement.joules, measurement.cost_per_million
    return [
        measurement.name,
        _rate(measurement.prefill),
        _rate(measurement.decode),
        f"{measurement.first_token.median:.2f} s",
        format_bytes(memory),
        "-" if joules is None else f"{joules.median:.2f}",
        "-" if cost is None else f"{cost:.2f}",
    ]


def _rate(samples: Samples) -> str:
    noise = f" ±{samples.spread:.0%}" if samples.spread >= 0.03 else ""
    return f"{samples.median:.1f}{noise}"


def _bar(share: float, width: int) -> str:
    eighths = max(1, round(share * width * 8))
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + _EIGHTHS[rest].strip()).ljust(width)
