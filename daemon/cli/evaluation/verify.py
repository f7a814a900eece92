"""`ingle verify`: checks that ingle's own engine computes the same as another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...terminal.terminal_output import format_seconds, format_table, print_json, print_text
from ..command_parser import CommandParser
from ..engine_installation import required_import_path
from ..models.pull import find_model_path
from ..progress_report import ProgressReport
from ..text_file import read_text_file

if TYPE_CHECKING:
    from ingle.backends.jobs.verification.messages import VerificationProgress, VerificationReport

EXAMPLES = """\
  ingle verify smollm2
  ingle verify ./model.gguf --text book.txt --tokens 2000
  ingle verify ./folder-of-safetensors --json"""

_ENOUGH_TOKENS = 2000
_GROSS = 10.0
"""Times the limit of the mean divergence: a failure, however few the tokens are."""
_UNDECIDED = 2


def main(arguments: Sequence[str]) -> int:
    """Compare and print the result; 1 if the engines differ more than allowed, 2 if the tokens are
    too few to tell.
    """
    options = _parser().parse_args(arguments)
    text = None
    if options.text is not None:
        text = read_text_file(
            options.text, "The text", if_too_long="Shorten it, or limit it with --tokens."
        )
    name, path = find_model_path(options.model)
    from ingle.backends.jobs.verification.messages import VerificationSpec
    from ingle.backends.jobs.verification.scored_text import default_text
    from ingle.backends.jobs.verification.tolerances import ReferenceEngine
    from ingle.backends.jobs.verification.verifier import run_verification

    spec = VerificationSpec(
        path=path,
        text=default_text() if text is None else text,
        tokens=options.tokens,
        against=ReferenceEngine(options.against) if options.against else None,
    )
    import_path = required_import_path("cuda", "llama.cpp")
    with ProgressReport() as progress:
        report = run_verification(spec, lambda step: _show(progress, name, step), import_path)
    if options.json:
        print_json(_as_json(name, path, report))
    else:
        _print(name, report)
    passed = _passed(report)
    return _UNDECIDED if passed is None else 0 if passed else 1


def _parser() -> CommandParser:
    parser = CommandParser(
        "verify",
        "Run ingle's own engine and llama.cpp on the same text with the same weights,\n"
        "and compare their predictions at every token. The divergence is KL(p || q) in\n"
        "nats, p from llama.cpp and q from ingle. Exit status 1 if it is too large, 2 if\n"
        "the text is too short to tell.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="a name, a .gguf file, or a folder")
    parser.add_argument(
        "--text", metavar="FILE", help="the text to use, instead of the built-in one"
    )
    parser.add_number("--tokens", 2, help="only the first N tokens of the text")
    parser.add_argument(
        "--against",
        choices=("llama.cpp", "transformers"),
        help="the engine to compare with: llama.cpp, or transformers for safetensors",
    )
    return parser


def _show(report: ProgressReport, name: str, step: VerificationProgress) -> None:
    if step.loading is not None:
        report.show_step(f"{name}: loading into {step.loading}", in_lines=True)
    else:
        report.show_step(f"{name}: {step.compared} of {step.total} tokens compared", in_lines=True)


def _as_json(name: str, path: str, report: VerificationReport) -> dict[str, Any]:
    import msgspec

    values = msgspec.to_builtins(report)
    statistics = values.pop("statistics")
    choices = values.pop("first_choices")
    if choices is not None:
        texts = {"text": choices[0], "reference_text": choices[1]}
        statistics["first_divergence"] |= texts
    values.pop("type")
    return {"model": name, "path": path, **values, **statistics, "passed": _passed(report)}


def _print(name: str, report: VerificationReport) -> None:
    print_text(f"{name}: {report.architecture} {report.quantization} on {report.device}")
    print(f"compared with {report.against} over {report.statistics.tokens} tokens\n")
    print(format_table(("", "MEASURED", "LIMIT", ""), _rows(report), right="MEASURED LIMIT"))
    print()
    for label, fact in _facts(report):
        print_text(f"{label:<17} {fact}")
    if report.statistics.tokens < _ENOUGH_TOKENS:
        print(f"{'note':<17} the limits are meant for {_ENOUGH_TOKENS} tokens and more")
    passed = _passed(report)
    if passed is None:
        print(f"\ntoo few tokens to judge: compare {_ENOUGH_TOKENS} or more")
    else:
        print("\npassed" if passed else "\nFAILED")


def _passed(report: VerificationReport) -> bool | None:
    """Return whether the engines agree; None if a few different tokens may explain a failure."""
    measured = report.statistics
    few = measured.tokens < _ENOUGH_TOKENS and measured.mean_kl <= _GROSS * report.limits.mean_kl
    return None if report.failures and few else not report.failures


def _rows(report: VerificationReport) -> list[tuple[str, str, str, str]]:
    measured, limits = report.statistics, report.limits
    rows = (
        ("mean_kl", "mean KL divergence", "{:.2g} nat", "{:.2g} nat"),
        ("top1_agreement", "same first choice", "{:.2%}", "{:.1%}"),
        ("perplexity_difference", "perplexity", "{:+.3%}", "{:.1%}"),
    )
    return [
        (
            caption,
            form.format(getattr(measured, name)),
            limit.format(getattr(limits, name)),
            "too far" if name in report.failures else "ok",
        )
        for name, caption, form, limit in rows
    ]


def _facts(report: VerificationReport) -> list[tuple[str, str]]:
    measured, other = report.statistics, report.against
    ours = _speed(measured.tokens, report.seconds)
    theirs = _speed(measured.tokens, report.reference_seconds)
    return [
        ("divergence", f"99 % below {measured.p99_kl:.2g} nat, {measured.max_kl:.2g} at most"),
        ("perplexity", f"{measured.perplexity:.4f}, {other} {measured.reference_perplexity:.4f}"),
        ("first difference", _first_difference(report)),
        ("time", f"{ours}, {other} {theirs}"),
    ]


def _first_difference(report: VerificationReport) -> str:
    first = report.statistics.first_divergence
    if first is None or report.first_choices is None:
        return "none, every first choice is the same"
    ours, theirs = (_quoted(text) for text in report.first_choices)
    return f"token {first.position + 1}, {ours} for {theirs} ({first.gap:.2g} nat behind)"


def _quoted(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 14 else f"{shown[:12]}…{shown[-1]}"


def _speed(tokens: int, seconds: float) -> str:
    return f"{format_seconds(seconds)} ({tokens / max(seconds, 1e-9):.0f} tokens/s)"
