"""What can be set for the answers of one chat, and how it is written in a command."""

from __future__ import annotations

from collections.abc import Mapping

SAMPLING = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (-1, 10_000),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 10.0),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "seed": (0, 2**31 - 1),
    "max_tokens": (1, 2**31 - 1),
}
"""What can be set for a chat, and its bounds; the daemon knows more, for programs."""
THINKING = ("off", "on", "low", "medium", "high")
WHOLE = {"top_k", "seed", "max_tokens"}


def changed_sampling(sampling: Mapping[str, float], text: str) -> dict[str, float]:
    """`sampling` with the pairs of `text`; raises `ValueError` with a sentence for people."""
    result = dict(sampling)
    for pair in text.replace(",", " ").split():
        name, equals, value = pair.partition("=")
        if name not in SAMPLING or not equals:
            known = ", ".join(SAMPLING)
            raise ValueError(f"{pair} is no NAME=VALUE with one of these names: {known}.")
        if not value:
            result.pop(name, None)
            continue
        least, most = SAMPLING[name]
        try:
            number = int(value) if name in WHOLE else float(value)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise ValueError(f"{name} is a number from {least:g} to {most:g}, and not {value}.")
        result[name] = number
    return result
