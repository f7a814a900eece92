"""Text of `ingle advise`: the choice, the alternatives, and the derivation of the numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ingle.backends.advice.advice_request import NEEDS
from ingle.backends.advice.advise import Option
from ingle.backends.advice.machine_capacity import MachineCapacity
from ingle.backends.registry.engines import all_engines

from ..terminal.terminal_colors import TerminalColors
from ..terminal.terminal_output import format_bytes, format_count, strip_control_characters
from .machine_advice import Survey

_NAME_WIDTH = 9
_NARROWEST = 40


def advice_text(
    survey: Survey, columns: int, paint: TerminalColors, *, explain: bool = False
) -> str:
    """Return the text in lines of at most `columns` characters, except for longer words."""
    width = max(_NARROWEST, columns)
    request, advice = survey.request, survey.advice
    task = {"chat": "chat", "code": "code", "embed": "embeddings"}[request.task]
    need = "" if survey.embeds else f", {request.need}: {NEEDS[request.need]}"
    lines = [paint.bold(f"For {task}{need}"), ""]
    if advice.best is None:
        reason = "Nothing fits: no known model can run in the available memory."
        if request.context and not advice.alternatives:
            reason = f"No known model has a context of {request.context:,} tokens."
        lines += [*_wrap(reason, width), ""]
    else:
        lines += [*_choice(survey, advice.best, width, paint), ""]
        if explain:
            lines += [*_explained(advice.best, width, paint), ""]
    if advice.alternatives:
        lines.append(paint.bold("Why not"))
        for option in advice.alternatives:
            lines += _alternative(option, width, embeds=survey.embeds)
        lines.append("")
    for note in survey.notes:
        lines += [*_wrap(strip_control_characters(note), width), ""]
    if advice.best is not None:
        lines += _next_steps(survey, advice.best)
    return "\n".join(lines).rstrip()


def _choice(survey: Survey, best: Option, width: int, paint: TerminalColors) -> Iterator[str]:
    form = [format_count(best.parameters)]
    if best.quantization:
        form.append(best.quantization)
    here = "here" if best.installed else f"{format_bytes(best.download)} to pull"
    yield (
        f"  {paint.colour('▸', 'green')} {paint.bold(strip_control_characters(best.model))}  "
        + strip_control_characters(" · ".join([*form, here]))
    )
    for name, value in _facts(survey, best):
        label = name
        for part in textwrap.wrap(strip_control_characters(value), width - _NAME_WIDTH - 5):
            yield f"    {label.ljust(_NAME_WIDTH)} {part}"
            label = ""


def _facts(survey: Survey, best: Option) -> Iterator[tuple[str, str]]:
    capacity = survey.capacity
    engine = next(each.title for each in all_engines() if each.label == best.engine)
    place = "the processor"
    if best.device == "gpu":
        place = f"the {capacity.budget.gpu_name}"
        if best.gpu_layers < best.layers:
            place += f" with {best.gpu_layers} of {best.layers} layers"
    if (needs := survey.needs) is not None:
        place += f", once {needs.name} is installed ({format_bytes(needs.download_bytes)})"
    yield "engine", f"{engine} on {place}"
    if best.quantize == "nf4":
        yield "weights", "quantised to four bits while loading (quantize = nf4)"
    cache = "" if survey.embeds else f", KV cache in {best.kv_type}"
    yield "context", f"{best.context:,} tokens{cache}"
    if best.draft:
        yield "drafts", f"of {best.draft}, if they are measured to pay"
    yield "memory", _memory(best, capacity)
    if best.speed is None:
        yield "speed", "unknown: the memory bandwidth of this device is not known"
    elif survey.embeds:
        yield "speed", f"prefill about {_rate(best.speed.prefill)} tokens/s"
    else:
        yield "speed", _speed(best)
    if not best.exact:
        yield "", "Estimated from its size; exact once it is installed."


def _memory(best: Option, capacity: MachineCapacity) -> str:
    parts = [f"{format_bytes(best.host_bytes)} of {format_bytes(capacity.budget.host)} available"]
    if best.gpu_bytes:
        free = format_bytes(capacity.budget.gpu or 0)
        parts.insert(0, f"{format_bytes(best.gpu_bytes)} of {free} on the GPU")
    return ", ".join(parts)


def _speed(best: Option) -> str:
    assert best.speed is not None
    decode, full = best.speed.decode, best.speed.decode_full
    return (
        f"about {_rate(decode)} tokens/s ({_rate(full)} with a full context), "
        f"prompts {_rate(best.speed.prefill)} tokens/s"
    )


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"


def _explained(best: Option, width: int, paint: TerminalColors) -> Iterator[str]:
    yield paint.bold("How the numbers were computed")
    for line in [*best.memory, *(best.speed.arithmetic if best.speed else [])]:
        yield from textwrap.wrap(
            strip_control_characters(line),
            width - 2,
            initial_indent="  ",
            subsequent_indent="      ",
        )
    yield from _wrap(f"engine: {best.why}", width, "  ")


def _alternative(option: Option, width: int, *, embeds: bool) -> Iterator[str]:
    speed = ""
    if option.speed and option.fits:
        rate = option.speed.prefill if embeds else option.speed.decode
        speed = f", {_rate(rate)} tokens/s"
    size = format_bytes(option.host_bytes + option.gpu_bytes)
    yield strip_control_characters(f"  {option.model}  {option.quantization} · {size}{speed}")
    yield from _wrap(strip_control_characters(option.why_not), width, "    ")


def _next_steps(survey: Survey, best: Option) -> Iterator[str]:
    request = survey.request
    if survey.needs is not None:
        yield f"  ingle engine install {survey.needs.name}   get that engine"
    if not survey.embeds:
        flags = f" --for {request.need}" if request.need != "quality" else ""
        flags += f" --task {request.task}" if request.task != "chat" else ""
        flags += f" --context {request.context}" if request.context else ""
        yield f"  ingle advise{flags} --apply   make it the default"
    yield strip_control_characters(f"  ingle {'run' if best.installed else 'pull'} {best.model}")


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
