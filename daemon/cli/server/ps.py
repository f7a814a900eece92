"""`ingle ps`: shows the loaded models, their memory and state, and where the daemon listens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    format_seconds,
    print_json,
    print_table,
    print_text,
    text_columns,
)
from ..command_parser import CommandParser
from ..daemon_launcher import running_daemon
from ..models.fit_summary import context_cost
from ..models.list import print_pulls

if TYPE_CHECKING:
    from ...client.daemon_types import DeviceGauges, Status
    from ...client.model_types import KnownAgent, LoadedModel
    from ...client.routing_types import AnswerCost

HEADERS = ("NAME", "STATE", "DEVICE", "CONTEXT", "KV", "RUNNING", "MEMORY", "EXPIRES")
_INDENT = 11


def main(arguments: Sequence[str]) -> int:
    """Print the status without starting anything; raises `CommandError`."""
    parser = CommandParser(
        "ps", "Show the loaded models, what they hold and why, and where the daemon listens."
    )
    options = parser.parse_args(arguments)
    client = running_daemon(load_config(os.environ))
    if client is None:
        if options.json:
            print_json({"daemon": "stopped", "models": []})
        else:
            print("The daemon is not running.")
        return 0
    status = client.status()
    if options.json:
        from msgspec.structs import asdict

        print_json({"daemon": "running", **asdict(status)})
    else:
        _print_status(status)
        print_pulls(status.pulls)
    return 0


def _print_status(status: Status) -> None:
    print_text(f"ingle {status.version}, pid {status.pid}, up {format_seconds(status.uptime)}")
    print_text(f"listens on {status.socket}")
    if status.address:
        print_text(f"       and http://{status.address}")
    else:
        print("       and not on TCP: the port is in use by another program, or turned off")
    for device in status.devices:
        if line := _device(device):
            print_text(line)
    for cost in status.costs:
        print_text(cost_line(cost))
    print()
    if not status.models:
        print("No model is loaded.")
        return
    print_table(HEADERS, [_row(each) for each in status.models], right="CONTEXT KV RUNNING MEMORY")
    width = min(text_columns(), 80)
    for model in status.models:
        lines = [
            line
            for label, text in _details(model)
            for line in wrap(
                text,
                width,
                initial_indent=f"  {label}".ljust(_INDENT),
                subsequent_indent=" " * _INDENT,
                break_on_hyphens=False,
            )
        ]
        if lines:
            print_text("\n".join(["", model.name, *lines]))


def _device(device: DeviceGauges) -> str:
    """Return the line of a GPU, or of a processor whose power is known."""
    if device.kind != "gpu" and device.watts is None:
        return ""
    facts: list[str] = []
    if device.memory_total and device.memory_used is not None:
        used, total = format_bytes(device.memory_used), format_bytes(device.memory_total)
        facts.append(f"{used} of {total} in use")
    if device.utilization is not None:
        facts.append(f"{device.utilization:.0%} busy")
    if device.watts is not None:
        facts.append(f"{device.watts:.0f} W")
    return f"{device.name}: {', '.join(facts)}" if facts else ""


def cost_line(cost: AnswerCost) -> str:
    """Return the cost of a million of a model's tokens in one line."""
    what = "its latest answers" if cost.remote else "its answers since the start"
    price = f"{cost.per_million:.4g} {cost.currency}".rstrip()
    return f"{cost.name}: {price} a million tokens, by {what}"


def _row(model: LoadedModel) -> list[str]:
    state = model.state
    if state == "starting":
        state = f"starting {model.fraction:.0%}"
    elif model.quarantined_for:
        state = "quarantined"
    capacity, predicted = model.kv_capacity, model.memory.predicted
    return [
        model.name,
        state,
        model.device or "-",
        str(model.context or "-"),
        f"{model.kv_used / capacity:.0%}" if capacity else "-",
        f"{model.running}+{model.waiting}" if model.waiting else str(model.running),
        format_bytes(model.memory.held or predicted.host + sum(predicted.gpus)),
        _expires(model),
    ]


def _details(model: LoadedModel) -> Iterator[tuple[str, str]]:
    """Yield the details of one model, label and text."""
    if model.error:
        yield "error", model.error
        if left := model.quarantined_for:
            yield (
                "why",
                f"It died three times within a minute, and is quarantined for {left:.0f} more "
                f"seconds; `ingle unload {model.name}` lifts that.",
            )
        return
    if model.reason:
        yield "why", model.reason
    if model.state == "starting":
        return
    yield "memory", _memory(model)
    if not model.context:  # it recognises speech
        return
    yield "KV", context_cost(model)
    if model.prefill_tokens:
        done, share = model.prefilled_tokens, model.prefilled_tokens / model.prefill_tokens
        yield "prefill", f"{done:,} of {model.prefill_tokens:,} tokens computed ({share:.0%})"
    yield "tokens", _tokens(model)
    if model.draft or model.drafted_tokens_total:
        yield "drafts", _drafts(model)
    if model.known_agents:
        yield "agents", "; ".join(map(_agent, model.known_agents))
    for warning in model.warnings:
        yield "note", warning


def _memory(model: LoadedModel) -> str:
    memory = model.memory
    predicted, measured = memory.predicted, memory.measured
    words = [f"{format_bytes(predicted.host)} predicted"]
    if memory.held:
        words.append(f"{format_bytes(measured.host)} taken")
        if memory.mapped:
            spare = f" ({format_bytes(memory.reclaimable)} spare)" if memory.reclaimable else ""
            words.append(f"{format_bytes(memory.mapped)} of files mapped{spare}")
    on_gpus = list(zip_longest(predicted.gpus, measured.gpus, fillvalue=0))
    for number, (expected, found) in enumerate(on_gpus):
        if expected or found:
            where = f"GPU {number}" if predicted.other_gpus else "the GPU"
            taken = f", {format_bytes(found)} taken" if found else ""
            words.append(f"on {where} {format_bytes(expected)} predicted{taken}")
    kept = [
        f"{format_bytes(size)} {where}"
        for size, where in (
            (model.kv_memory_bytes, "in memory"),
            (model.kv_disk_bytes, "on disk"),
        )
        if size
    ]
    stored = f"; conversations hold {' and '.join(kept)}" if kept else ""
    return ", ".join(words) + stored


def _tokens(model: LoadedModel) -> str:
    prefilled, cached = model.prompt_tokens_total, model.cached_tokens_total
    prompts = prefilled + cached
    share = f", and {cached:,} found in the cache ({cached / prompts:.0%})" if prompts else ""
    speed = f" at {model.decode_rate:.1f}/s" if model.decode_rate else ""
    return f"{prefilled:,} prefilled{share}; {model.completion_tokens_total:,} generated{speed}"


def _agent(known: KnownAgent) -> str:
    if known.computing:
        return f"the prompt of {known.agent} ({known.tokens:,} tokens) is being computed ahead"
    return f"the prompt of {known.agent} ({known.tokens:,} tokens) is ready"


def _drafts(model: LoadedModel) -> str:
    accepted, drafted = model.accepted_tokens_total, model.drafted_tokens_total
    share = f" ({accepted / drafted:.0%})" if drafted else ""
    by = f", by {Path(model.draft).name}" if model.draft else ""
    return f"{accepted:,} of {drafted:,} tokens accepted{share}{by}"


def _expires(model: LoadedModel) -> str:
    if model.state != "ready":
        return "-"
    if (seconds := model.expires_in) is not None:
        return format_seconds(seconds)
    if model.running or model.waiting:
        return "in use"
    return "pinned" if model.pinned else "never"
