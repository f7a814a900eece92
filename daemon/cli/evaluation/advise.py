"""`ingle advise`: recommends a model and settings for this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...settings.config import Config, load_config
from ...terminal.terminal_colors import TerminalColors
from ...terminal.terminal_output import print_json, print_status, text_columns
from ...terminal.unsafe_characters import with_colours_only
from ..command_errors import CommandError
from ..command_parser import CommandParser
from .bench import read_report

if TYPE_CHECKING:
    from ingle.backends.advice.advice_request import AdviceRequest
    from ingle.backends.advice.advise import Advice

NEEDS = ("quality", "latency", "memory", "privacy", "batch")
TASKS = ("chat", "code", "embed")
EXAMPLES = """\
  ingle advise
  ingle advise --for latency --task code
  ingle advise --context 32768 --explain
  ingle advise --for quality --apply     make it the default"""


def main(arguments: Sequence[str]) -> int:
    """Print the recommendation; 1 if nothing fits."""
    options = _parser().parse_args(arguments)
    config = load_config(os.environ)
    from ingle.backends.advice.advice_request import AdviceRequest

    from ...advice.machine_advice import advise_for_machine
    from ...benchmark.bench_report import SavedReports

    request = AdviceRequest(need=options.need, task=options.task, context=options.context)
    benches = [*SavedReports(config.paths.benches).all(), *map(read_report, options.bench)]
    found = advise_for_machine(config, request, options.model, benches)
    if options.json:
        print_json(found.as_json())
    else:
        from ...advice.advice_text import advice_text

        paint = TerminalColors.for_output()
        text = advice_text(found, text_columns(), paint, explain=options.explain)
        print(with_colours_only(text))
    if found.advice.best is None:
        return 1
    if options.apply:
        _apply(found.advice, request, config)
        if found.needs is not None:
            print_status(f"`ingle engine install {found.needs.name}` gets the engine for it.")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "advise",
        "Recommend a model for this machine and a need, with its context, KV cache\n"
        "and engine, and predict its speed. Nothing is loaded.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="rate only this model, which must be installed"
    )
    parser.add_argument(
        "--for", dest="need", choices=NEEDS, default="quality", help="what matters most"
    )
    parser.add_argument("--task", choices=TASKS, default="chat", help="what the model is for")
    parser.add_number("--context", 0, default=0, help="the least tokens of context")
    parser.add_argument(
        "--bench",
        action="append",
        default=[],
        metavar="FILE",
        help="correct predictions by the results of `ingle bench --save FILE`",
    )
    parser.add_flag("--explain", help="show how each number was computed")
    parser.add_flag("--apply", help="make it the default, in config.toml")
    return parser


def _apply(advice: Advice, request: AdviceRequest, config: Config) -> None:
    from ...advice.apply_advice import apply_advice

    assert advice.best is not None
    if request.task == "embed":
        raise CommandError(
            "There is nothing to configure for embeddings: every request names its model.",
            f"Use {advice.best.model} as the model of /v1/embeddings.",
        )
    written = apply_advice(advice.best, config)
    settings = ", ".join(f"{name} = {value}" for name, value in written.items())
    print_status(f"Wrote into {config.paths.config_file}: {settings}.")
    if not advice.best.installed:
        print_status(f"`ingle pull {advice.best.model}` downloads it now; else its first use does.")
    print_status("A running daemon keeps its settings until `ingle stop`.")
