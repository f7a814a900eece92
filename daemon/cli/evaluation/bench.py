"""`ingle bench`: measures a model's speed on this machine in several variants."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...settings.config import Config, load_config
from ...terminal.terminal_output import counted, print_json, print_status, text_columns
from ...terminal.unsafe_characters import with_colours_only
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..engine_installation import required_import_path
from ..models.pull import find_model_path
from ..progress_report import ProgressReport

if TYPE_CHECKING:
    from ingle.backends.base.load_spec import LoadSpec
    from ingle.backends.worker.supervisor.worker_process import WorkerProcess

    from ...benchmark.bench_report import BenchReport
    from ...benchmark.bench_variant import BenchVariant

EXAMPLES = """\
  ingle bench smollm2
  ingle bench smollm2 --vary clients,kv,flash --save before.json
  ingle bench smollm2 --vary clients,kv,flash --against before.json
  ingle bench ./folder --only "quantize=nf4 clients=4" """
_DEFAULT_AXES = ("clients",)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; raises `CommandError`."""
    options = _parser().parse_args(arguments)
    _check(options)
    earlier = read_report(options.against) if options.against is not None else None
    combinations = _combinations(options)
    config = load_config(os.environ)
    report = _measure(config, options, combinations)
    from ...benchmark.bench_report import SavedReports

    kept = SavedReports(config.paths.benches)
    if earlier is None:
        last = kept.find(report.model)
        # Only a report of the same workload can be compared.
        if last is not None and last.workload == report.workload:
            earlier = last
    measured = any(found.error is None for found in report.measurements)
    if measured:
        kept.keep(report)
    _print(report, earlier, options)
    if options.save:
        _save(report, Path(options.save))
    return 0 if measured else 1


def _parser() -> CommandParser:
    from ...benchmark.bench_variant import AXES

    axes = "\n".join(f"  {axis:<12}{', '.join(values)}" for axis, values in AXES.items())
    parser = CommandParser(
        "bench",
        "Measure a model on this machine: prefill and decode tokens per second, time\n"
        "to first token, memory, and joules per token if there is a power meter. It\n"
        "runs in a process of its own, independently of the daemon.\n\n"
        f"what can be varied:\n{axes}",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="a name, a .gguf file, or a folder")
    parser.add_argument(
        "--vary", metavar="AXES", help="vary each of these alone against the baseline (clients)"
    )
    parser.add_argument(
        "--only", action="append", metavar="VALUES", help="only this combination; may be repeated"
    )
    parser.add_argument("--draft", metavar="MODEL", help="the draft model for speculation")
    parser.add_number("--prompt", 8, 1 << 20, default=512, help="tokens of each prompt (512)")
    parser.add_number("--tokens", 2, 1 << 16, default=64, help="tokens of each answer (64)")
    parser.add_number("--runs", 1, 100, default=3, help="runs of each (3)")
    parser.add_argument("--save", metavar="FILE", help="save the measurements as JSON")
    parser.add_argument(
        "--against", metavar="FILE", help="compare with that file, else with the last run"
    )
    return parser


def _check(options: Namespace) -> None:
    if options.vary and options.only:
        raise UsageError("--vary and --only exclude each other.", "Use only one of them.")
    if options.save and not os.access(Path(options.save).absolute().parent, os.W_OK):
        raise UsageError(
            f"{Path(options.save).absolute().parent} is not a folder that can be written to.",
            "Choose another --save.",
        )


def _combinations(options: Namespace) -> list[BenchVariant]:
    from ...benchmark.bench_variant import WrongCombination, parse_combination, varied

    try:
        if options.only:
            return list(dict.fromkeys(parse_combination(text) for text in options.only))
        axes = options.vary.replace(",", " ").split() if options.vary else _DEFAULT_AXES
        return varied(axes, drafts=options.draft is not None)
    except WrongCombination as error:
        raise UsageError(str(error), "`ingle bench --help` lists what can be varied.") from error


def read_report(name: str) -> BenchReport:
    """Return the report in a file that the user named; raises `UsageError`."""
    from ...benchmark.bench_report import load_report

    try:
        return load_report(Path(name))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(
            f"{name} is not a report of `ingle bench`: {error}.",
            "Make one with `ingle bench MODEL --save FILE`.",
        ) from error


def _measure(
    config: Config, options: Namespace, combinations: Sequence[BenchVariant]
) -> BenchReport:
    # The imports of a measurement take longer than other commands take to run.
    import asyncio

    from ingle.backends.jobs.verification.scored_text import default_text
    from ingle.models.catalog import Catalog
    from ingle.models.store.model_store import ModelStore

    from ...benchmark.bench_report import BenchReport
    from ...benchmark.bench_run import BenchRunner

    name, path = find_model_path(options.model)
    store = ModelStore(config.paths.models, Catalog.load())
    model = store.resolve(path)
    work = "alone" if len(combinations) == 1 else f"in {len(combinations)} combinations"
    print_status(f"Measuring {name} {work}, {counted(options.runs, 'run')} each.")
    with ProgressReport() as progress:
        runner = BenchRunner(
            model=model,
            config=config,
            text=default_text(),
            prompt_tokens=options.prompt,
            answer_tokens=options.tokens,
            runs=options.runs,
            resolve=lambda reference: store.resolve(find_model_path(reference)[1]),
            create_backend=_worker,
            on_step=partial(progress.show_step, in_lines=True),
            draft=options.draft,
        )
        measurements = asyncio.run(runner.measure(combinations))
        machine = _machine(config)
    return BenchReport(
        model=name,
        quantization=model.quantization,
        parameters=model.parameters,
        prompt_tokens=options.prompt,
        answer_tokens=options.tokens,
        measured=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        machine=machine,
        measurements=measurements,
    )


def _worker(spec: LoadSpec) -> WorkerProcess:
    """A worker that imports its engine from where it is installed, as the daemon's do."""
    from msgspec.structs import replace

    from ingle.backends.registry.engines import get_engine
    from ingle.backends.worker.supervisor.worker_process import WorkerProcess

    import_path = required_import_path(*get_engine(spec.engine).imports)
    return WorkerProcess(replace(spec, import_path=import_path))


def _machine(config: Config) -> dict[str, str]:
    from ingle.backends.hardware.read_machine import read_machine

    from ...engines.engine_paths import engine_import_path

    found = read_machine(
        config.paths.models,
        config.paths.machine_facts,
        import_path=engine_import_path(config.paths),
    )
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return {
        "cpu": found.cpu.model,
        "memory": f"{found.memory.total / 1e9:.1f} GB",
        "gpus": ", ".join(gpu.name for gpu in found.gpus),
        "load_after": load,
    }


def _save(report: BenchReport, path: Path) -> None:
    from ...benchmark.bench_report import save_report

    try:
        save_report(report, path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    print_status(f"Saved as {path}.")


def _print(report: BenchReport, earlier: BenchReport | None, options: Namespace) -> None:
    from msgspec.structs import asdict

    from ...benchmark.bench_report import compare
    from ...benchmark.bench_text import bench_text

    if options.json:
        changes = {"changes": compare(report, earlier)} if earlier is not None else {}
        print_json({**asdict(report), **changes})
        return
    print(with_colours_only(bench_text(report, earlier, text_columns())))
