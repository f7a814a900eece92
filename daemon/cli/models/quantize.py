"""`ingle quantize`: writes a smaller file of a model."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...terminal.terminal_output import (
    format_bytes,
    format_count,
    format_seconds,
    print_json,
    print_text,
)
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..engine_installation import required_import_path
from ..progress_report import ProgressReport
from .adapter import find_adapter
from .pull import find_model_path

if TYPE_CHECKING:
    from ingle.backends.jobs.quantization.messages import QuantizeProgress, QuantizeReport
    from ingle.backends.jobs.verification.messages import VerificationReport

EXAMPLES = """\
  ingle quantize ./folder-of-safetensors Q4_K_M
  ingle quantize model-f16.gguf Q6_K --output model-q6.gguf
  ingle quantize ./folder+my-adapter Q4_K_M --json"""
TARGETS = {
    "F16": "half precision, as most GGUF conversions keep it",
    "BF16": "half precision with the range of single, as most models are published",
    "Q8_0": "8.5 bits a weight; no visible difference",
    "Q6_K": "6.6 bits; hardly any",
    "Q5_K_M": "5.7 bits; small",
    "Q4_K_M": "4.9 bits; the most common choice",
    "Q4_0": "4.6 bits; older and coarser, fast on old processors",
    "AWQ": "4.2 bits, a folder of safetensors for ingle's own engine and vLLM",
    "GPTQ": "4.2 bits around zero, likewise; for programs that read no AWQ",
    "FP8": "8 bits, likewise; fast on RTX 40 and newer",
}
_FOLDERS = ("AWQ", "GPTQ", "FP8")
_VERIFIED_TOKENS = 512
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_SHOWN_EVERY = 0.1


def main(arguments: Sequence[str]) -> int:
    """Write the file and compare both engines on it; 1 if they differ more than allowed."""
    options = _parser().parse_args(arguments)
    target = _target(options.target)
    adapter = find_adapter(options.model)
    name, source = find_model_path(options.model if adapter is None else adapter.model)
    added = "" if adapter is None else adapter.name.rpartition("+")[2]
    is_folder = target in _FOLDERS
    if is_folder:
        _check_folder(Path(source), added)
    output = _output(options.output, Path(source), added, target)
    from ingle.backends.jobs.quantization.messages import QuantizationTarget, QuantizeSpec
    from ingle.backends.jobs.quantization.quantizer import run_quantization

    spec = QuantizeSpec(
        source=source,
        output=str(output),
        target=QuantizationTarget(target),
        adapter="" if adapter is None else adapter.path,
        importance=_importance(options.importance, target),
        requantize=options.requantize,
        overwrite=options.force,
        threads=options.threads,
    )
    import_path = required_import_path("cuda" if is_folder else "llama.cpp")
    with ProgressReport() as progress:
        view = _ProgressView(progress, f"{Path(name).name} to {target}")
        report = run_quantization(spec, view.show, import_path)
        verified = (
            None if options.no_verify or is_folder else _verify(output, progress, import_path)
        )
    if options.json:
        from msgspec.structs import asdict

        print_json({**asdict(report), "verified": _verdict(verified)})
    else:
        _print(report, verified, asked=not options.no_verify, is_folder=is_folder)
    return 1 if verified is not None and _failures(verified) else 0


def _parser() -> CommandParser:
    kinds = "\n".join(f"  {name:<8}{what}" for name, what in TARGETS.items())
    parser = CommandParser(
        "quantize",
        "Write a smaller GGUF file of a model: of a folder of safetensors, or of a GGUF\n"
        "file in F16, BF16 or Q8_0; or a smaller folder of a folder. After an\n"
        "interruption the same command continues where it was. At the end llama.cpp\n"
        "loads the file, and both engines are compared on it; a folder is loaded by\n"
        "ingle's own engine.\n\n"
        f"targets:\n{kinds}",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a folder, a .gguf file, or a name; the adapter\nof MODEL+ADAPTER is merged into it",
    )
    parser.add_argument("target", metavar="TARGET", help="one of those above")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file or folder; else MODEL-TARGET.gguf\nor MODEL-TARGET here",
    )
    parser.add_argument(
        "--importance",
        metavar="FILE",
        help="a text like those that the model will read, or an\n"
        "imatrix file: what matters more is rounded less",
    )
    parser.add_flag("--force", help="replace the file if it exists")
    parser.add_flag("--requantize", help="accept a source that is already quantised")
    parser.add_number("--threads", 0, 1024, default=0, help="default: all cores")
    parser.add_flag("--no-verify", help="do not compare the engines")
    return parser


def _target(text: str) -> str:
    wanted = text.upper()
    if wanted in TARGETS:
        return wanted
    if wanted == "NF4":
        raise UsageError(
            "NF4 is not a file format: ingle's own engine makes it while it loads a model.",
            'Use `ingle run MODEL --quantize nf4`, or quantize = "nf4" in the settings.',
        )
    raise UsageError(f"{text} is not a target.", f"Targets: {', '.join(TARGETS)}.")


def _importance(wanted: str | None, target: str) -> str:
    if wanted is None:
        return ""
    if target in ("F16", "BF16", "Q8_0", "FP8"):
        raise UsageError(
            f"{target} rounds all weights alike.", "Leave --importance out, or choose Q6_K or less."
        )
    path = Path(wanted).expanduser().absolute()
    if not path.is_file():
        raise CommandError(f"There is no file {path}.", "Name a text.")
    return str(path)


def _output(wanted: str | None, source: Path, adapter: str, target: str) -> Path:
    if wanted is not None:
        path = Path(wanted).expanduser().absolute()
    else:
        stem = source.name if source.is_dir() else _PART.sub("", source.stem)
        for known in TARGETS:
            if stem.upper().endswith((f"-{known}", f".{known}")):
                stem = stem[: -len(known) - 1]
        ending = "" if target in _FOLDERS else ".gguf"
        path = Path.cwd() / f"{stem}{adapter and f'-{adapter}'}-{target}{ending}"
    if target not in _FOLDERS and path.suffix.lower() != ".gguf":
        raise UsageError(f"{path} should end in .gguf.", "Rename it.")
    if not path.parent.is_dir():
        raise CommandError(f"There is no folder {path.parent}.", "Create it first.")
    return path


def _check_folder(source: Path, adapter: str) -> None:
    """Raise `CommandError` unless a folder can be made of this model."""
    if adapter:
        raise CommandError(
            "An adapter is merged into GGUF files only.",
            "Choose another target, or name the model without its adapter.",
        )
    if not source.is_dir():
        raise CommandError(
            f"AWQ, GPTQ and FP8 are made from a folder of safetensors, and {source} is none.",
            "Choose a GGUF target such as Q4_K_M.",
        )


class _ProgressView:
    """Share and time left, shown ten times a second."""

    def __init__(self, report: ProgressReport, title: str) -> None:
        self._report = report
        self._title = title
        self._began = time.monotonic()
        self._shown = 0.0

    def show(self, progress: QuantizeProgress) -> None:
        now, step = time.monotonic(), progress.step
        if progress.total:
            if now - self._shown < _SHOWN_EVERY:
                return
            left = ""
            if (fresh := progress.done - progress.resumed) > 0:
                rest = (progress.total - progress.done) * (now - self._began) / fresh
                left = f", {format_seconds(rest)} left"
            step = f"{progress.done / progress.total:.0%}{left}  {step}"
        self._shown = now
        self._report.show_step(f"{self._title}: {step}")


def _verify(
    path: Path, progress: ProgressReport, import_path: Sequence[str]
) -> VerificationReport | None:
    """Compare both engines on the new file; None if ingle's own is not installed or does not
    support it.
    """
    from ingle.backends.base.child_process import find_module
    from ingle.backends.base.errors import BackendError
    from ingle.backends.jobs.verification.messages import VerificationSpec
    from ingle.backends.jobs.verification.scored_text import default_text
    from ingle.backends.jobs.verification.verifier import run_verification

    if find_module("torch", import_path) is None:
        return None
    spec = VerificationSpec(path=str(path), text=default_text(), tokens=_VERIFIED_TOKENS)
    try:
        return run_verification(
            spec,
            lambda step: progress.show_step(
                f"comparing the engines: {step.compared} of {step.total or _VERIFIED_TOKENS} tokens"
            ),
            import_path,
        )
    except BackendError as error:
        if error.code in ("unsupported_model", "out_of_memory"):
            return None  # the file can be used without the comparison
        raise


def _verdict(verified: VerificationReport | None) -> dict[str, object] | None:
    if verified is None:
        return None
    return {
        "against": verified.against,
        "tokens": verified.statistics.tokens,
        "mean_kl": verified.statistics.mean_kl,
        "top1_agreement": verified.statistics.top1_agreement,
        "passed": not _failures(verified),
    }


def _print(
    report: QuantizeReport, verified: VerificationReport | None, *, asked: bool, is_folder: bool
) -> None:
    bits = 8 * report.size / max(1, report.parameters)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.types.items()))
    facts = [
        ("folder" if is_folder else "file", report.output),
        ("model", f"{report.architecture}, {format_count(report.parameters)} weights"),
        ("from", f"{report.source_quantization}, {format_bytes(report.source_size)}"),
        ("to", f"{report.quantization}, {format_bytes(report.size)}, {bits:.1f} bits a weight"),
        ("tensors", kinds),
        *([("weighed", f"{report.weighted} tensors")] if report.weighted else []),
        ("time", format_seconds(report.seconds)),
        ("loaded", "by ingle's own engine" if is_folder else "by llama.cpp"),
        *([] if is_folder else [("engines", _agreement(verified, asked=asked))]),
    ]
    for label, fact in facts:
        print_text(f"{label:<9} {fact}")
    if report.writes_text:
        print_text(f'\nTry it: ingle run {report.output} "Hello"')


def _agreement(verified: VerificationReport | None, *, asked: bool) -> str:
    if not asked:
        return "not compared"
    if verified is None:
        return "not compared: no PyTorch, too little memory, or a model for llama.cpp alone"
    statistics, failures = verified.statistics, _failures(verified)
    verdict = f"they differ too much: {', '.join(failures)}" if failures else "they agree"
    return (
        f"{statistics.top1_agreement:.1%} the same first choice, mean KL "
        f"{statistics.mean_kl:.2g} nat; {verdict}"
    )


def _failures(report: VerificationReport) -> list[str]:
    """Return the limits that are exceeded, without perplexity, for which these are too few
    tokens.
    """
    return [name for name in report.failures if name != "perplexity_difference"]
