"""ingle beside llama-server, xllamacpp's server and llama-cpp-python's, on one file, on the CPU."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import psutil
from comparison import Comparison, Pairs
from cpu_meter import CpuUse, IdleGate
from peers import SERVERS, available
from report import Report
from scenarios import KINDS, LATEST_FIRST, Scenario, Sizes
from server import Server, Settings

STREAMS = {"short": (1, 4, 16), "long": (1, 4), "json": (1, 4)}
GOAL = 0.97


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument(
        "--scenarios", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="NAME",
        help=f"of {', '.join(KINDS)}; all unless given",
    )  # fmt: skip
    parser.add_argument("--streams", type=int, nargs="+", metavar="N", help="of 1, 4 and 16")
    parser.add_argument(
        "--peers", nargs="+", choices=[name for name in SERVERS if name != "ingle"],
        metavar="NAME", default=available(), help="all that are there unless given",
    )  # fmt: skip
    parser.add_argument("--other-model", type=Path, help="a second GGUF file, for 'swap'")
    parser.add_argument("--rounds", type=int, help="pairs with each peer")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer")
    parser.add_argument("--context", type=int, default=8192, help="tokens in each KV cache")
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument(
        "--max-foreign", type=float, default=0.05, metavar="SHARE",
        help="of all processors that others may use; pairs above it do not count",
    )  # fmt: skip
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for quiet")
    parser.add_argument(
        "--speculation",
        choices=["auto", "off"],
        default="off",
        help="of ingle; off compares like with like, since the peers run without (default)",
    )
    parser.add_argument("--profile", action="store_true", help="show CPU time a token")
    parser.add_argument("--quick", action="store_true", help="few rounds, short texts")
    parser.add_argument("--save", action="store_true", help="write JSON and a picture to results/")
    return parser.parse_args(argv)


def scenarios(arguments: argparse.Namespace) -> Iterator[Scenario]:
    """All that were chosen, at every number of streams."""
    quick: bool = arguments.quick
    other: Path | None = arguments.other_model
    sizes = Sizes(
        answer=min(64, arguments.tokens) if quick else arguments.tokens,
        long_prompt=400 if quick else 1000,
        chat=800 if quick else 3000,
        other_model=other.resolve() if other else None,
    )
    for name in arguments.scenarios:
        if name == "swap" and other is None:
            print("'swap' is left out: it needs --other-model.", file=sys.stderr)
            continue
        for streams in STREAMS.get(name, (1,)):
            if arguments.streams is None or streams in arguments.streams:
                yield KINDS[name](sizes, streams)


async def compare(
    arguments: argparse.Namespace, servers: Sequence[Server], gate: IdleGate, report: Report | None
) -> None:
    """Every scenario with all servers loaded at once; idle ones use no processor."""
    comparison = Comparison(servers[0], servers[1:], gate)
    for scenario in scenarios(arguments):
        rounds = arguments.rounds or (3 if arguments.quick else scenario.default_rounds)
        await comparison.warm_up(scenario)
        for pairs in await comparison.run(scenario, rounds):
            for line in table(pairs):
                print(line, flush=True)
            if arguments.profile:
                for line in profile(pairs):
                    print(line, flush=True)
            if report is not None:
                report.add(pairs)


HEADER = (
    f"{'scenario':<9}{'streams':>7}  {'peer':<17}{'figure':<13}{'ratio':>6}  {'95 %':<11} ingle"
)


def table(pairs: Pairs) -> Iterator[str]:
    """A line for each figure: above 1 ingle is the faster one; at most 80 columns."""
    scenario = pairs.scenario
    start = f"{scenario.name:<9}{scenario.streams:>7}  {pairs.peer:<17}"
    if not pairs.pairs:
        yield f"{start}refused: {pairs.refused}"[:80]
        return
    for figure in scenario.figures:
        if figure is LATEST_FIRST and scenario.streams == 1:
            continue  # the first is the last
        ratio = pairs.ratio(figure)
        own = statistics.median(ours.measured.figures[figure.name] for ours, _ in pairs.counted())
        interval = f"{ratio.low:.2f}–{ratio.high:.2f}"
        mark = " ~" if pairs.noisy else " !" if ratio.low < GOAL else ""
        yield (
            f"{start}{figure.label:<13}{ratio.median:>6.2f}  {interval:<11}"
            f"{own:>6.{0 if own >= 100 else 1}f} {figure.unit}{mark}"
        )


def profile(pairs: Pairs) -> Iterator[str]:
    """Yield the CPU time of each process per generated token."""
    counted = pairs.counted()
    columns = [("ingle", [ours for ours, _ in counted]), (pairs.peer, [r for _, r in counted])]
    for name, runs in columns:
        for role in sorted({role for run in runs for role in run.cpu}):
            uses = [(run.cpu.get(role, CpuUse()), run.measured.tokens) for run in runs]
            cpu = statistics.median(1000 * use.seconds / tokens for use, tokens in uses)
            system = statistics.median(1000 * use.system / tokens for use, tokens in uses)
            sleeps = statistics.median(use.sleeps / tokens for use, tokens in uses)
            yield (
                f"    {name + ' ' + role:<33}{cpu:7.3f} ms/token ({system:.3f} in system), "
                f"{sleeps:5.2f} sleeps"
            )
    if counted and counted[0][0].cpu:
        runs = [run for pair in counted for run in pair]
        client = statistics.median(1000 * r.client.seconds / r.measured.tokens for r in runs)
        foreign = statistics.median(run.foreign_during or 0.0 for run in runs)
        yield f"    {'client':<33}{client:7.3f} ms/token; foreign share {foreign:.2f}"


def conditions(arguments: argparse.Namespace) -> dict[str, object]:
    """How it was measured, for the result file."""
    return {
        "quick": arguments.quick,
        "tokens": arguments.tokens,
        "speculation": arguments.speculation,
        "max_foreign": arguments.max_foreign,
        "loaded": "all servers at once; only the one that is asked computes",
        "variables": {
            name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_"))
        },
    }


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Start all servers, measure, print; with --save write the result files."""
    arguments = parse()
    # Ended from outside, the servers must end as well.
    signal.signal(signal.SIGTERM, _end)
    settings = Settings(
        arguments.threads,
        slots=16,
        context=arguments.context,
        speculation=arguments.speculation,
    )
    gate = IdleGate(
        arguments.max_foreign, arguments.patience, window=0.5 if arguments.quick else 1.0
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers: list[Server] = []
        for name in ["ingle", *arguments.peers]:
            server = SERVERS[name](settings, folder)
            stack.callback(server.stop)
            seconds = server.start(arguments.model.resolve())
            print(f"{name} is up after {seconds:.1f} s", file=sys.stderr)
            servers.append(server)
        print(HEADER)
        report = Report(arguments.model, servers, conditions(arguments)) if arguments.save else None
        asyncio.run(compare(arguments, servers, gate, report))
        print("~ too few quiet pairs, all are counted   ! the interval begins below 0.97")


if __name__ == "__main__":
    main()
