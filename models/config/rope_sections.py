"""The sections of RoPE for positions on several axes (M-RoPE)."""

from __future__ import annotations

from .config_fields import ConfigFields

_AXES = 3


def axis_sections(fields: ConfigFields, key: str, size: int) -> tuple[int, ...]:
    """How many of the pairs in `size` elements each axis turns; raises `InvalidModel`."""
    sections = fields.integers(key, 0, size)[:_AXES]
    if sum(sections) != size // 2:
        fields.fail(f"does not divide {size // 2} pairs of elements among axes by {key!r}")
    return sections
