"""The settings of a model file, each checked when it is read."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from ..errors import InvalidModel, UnsupportedModel

MAX_CONTEXT = 1 << 26
"""The most positions that a model file may claim."""
_INFINITE = (math.inf, {"__float__": "Infinity"})
"""Infinity in JSON: as Python writes it, and as transformers does."""
_LARGEST = sys.float_info.max


class ConfigFields:
    """Named values of unknown types; `source` begins the message of an error.

    A value of None counts as missing. A missing value without a default, a wrong type and a value
    out of range raise `InvalidModel`.
    """

    def __init__(self, values: Mapping[str, object], source: str) -> None:
        self._values = values
        self._source = source

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    @property
    def names(self) -> Sequence[str]:
        """The keys that there are."""
        return tuple(self._values)

    def says_none(self, key: str) -> bool:
        """True if the value is None rather than left out."""
        return key in self._values and self._values[key] is None

    def says_something(self, key: str) -> bool:
        """True if the value is neither missing nor false nor empty."""
        return bool(self._values.get(key))

    def is_list(self, key: str) -> bool:
        """True if the value is a list."""
        return isinstance(self._values.get(key), list | tuple)

    def length(self, key: str) -> int:
        """The number of items in a list."""
        return len(self._items(key))

    def is_text(self, key: str) -> bool:
        """True if the value is a string."""
        return isinstance(self._values.get(key), str)

    def is_unlimited(self, key: str) -> bool:
        """True if the value is the range from zero to infinity."""
        value = self._values.get(key)
        return any(value == [0.0, end] for end in _INFINITE)

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """An integer from `low` to `high`."""
        return self._whole(key, self._get(key, default), low, high)

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """Integers from `low` to `high`; a single one counts as a list of one."""
        items = self._items(key) if self.is_list(key) else [self._get(key, None)]
        return tuple(self._whole(key, item, low, high) for item in items)

    def number(
        self, key: str, default: float | None = None, *, low: float = 0.0, high: float = _LARGEST
    ) -> float:
        """A finite number above `low` and at most `high`."""
        return self._real(key, self._get(key, default), low, high)

    def numbers(
        self, key: str, count: int, *, low: float = 0.0, high: float = _LARGEST
    ) -> tuple[float, ...]:
        """`count` finite numbers above `low` and at most `high`."""
        items = self._items(key)
        if len(items) != count:
            self.fail(f"has {len(items)} values under {key!r} where {count} belong")
        return tuple(self._real(key, item, low, high) for item in items)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A truth value."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self._wrong(key, value, "true or false")
        return value

    def flags(self, key: str, count: int) -> tuple[bool, ...]:
        """A truth value, or zero or one, for each of the first `count` layers."""
        items = self._items(key)
        if len(items) < count or any(item not in (0, 1) for item in items):
            self.fail(f"needs a truth value for each of {count} layers under {key!r}")
        return tuple(bool(item) for item in items[:count])

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self._wrong(key, value, "text")
        return value

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """A string for each of the first `count` layers."""
        items = self._items(key)
        names = [item for item in items[:count] if isinstance(item, str)]
        if len(names) < count:
            self.fail(f"needs a name for each of {count} layers under {key!r}")
        return tuple(names)

    def group(self, key: str) -> ConfigFields | None:
        """The settings nested under `key`, or None."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._wrong(key, value, "a group of settings")
        return ConfigFields(cast("Mapping[str, object]", value), self._source)

    def nothing(self) -> ConfigFields:
        """Empty settings of the same source."""
        return ConfigFields({}, self._source)

    def fail(self, reason: str) -> NoReturn:
        """Raise `InvalidModel`; `reason` completes the sentence that the source begins."""
        raise InvalidModel(
            f"{self._source} {reason}.", hint="Download it again, or use another conversion."
        )

    def refuse(self, reason: str, hint: str) -> NoReturn:
        """Raise `UnsupportedModel`; `reason` completes the sentence that the source begins."""
        raise UnsupportedModel(f"{self._source} {reason}.", hint=hint)

    def _get(self, key: str, default: object) -> object:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            self.fail(f"does not say its {key!r}")
        return value

    def _items(self, key: str) -> Sequence[object]:
        value = self._get(key, None)
        if not isinstance(value, list | tuple):
            self._wrong(key, value, "a list")
        return cast("Sequence[object]", value)

    def _whole(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(key, value, "an integer")
        if not low <= value <= high:
            self.fail(f"says that {key!r} is {_short(value)}, outside {low} to {high}")
        return value

    def _real(self, key: str, value: object, low: float, high: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, value, "a number")
        if not low < value <= high:
            limit = f"above {low:g}" if high == _LARGEST else f"above {low:g}, up to {high:g}"
            self.fail(f"says that {key!r} is {_short(value)}, not a number {limit}")
        return float(value)

    def _wrong(self, key: str, value: object, wanted: str) -> NoReturn:
        self.fail(f"has {_short(value)} where {key!r} needs {wanted}")


def _short(value: object) -> str:
    """The value as text, short enough for a sentence."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"  # Python refuses to write out the largest ones
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
