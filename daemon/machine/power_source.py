"""Whether this machine runs on a battery."""

from __future__ import annotations


def on_battery() -> bool:
    """Whether it has a battery and no other power now; reads the system, imports psutil."""
    import psutil

    read = getattr(psutil, "sensors_battery", None)  # not on every system
    battery = read() if read is not None else None
    return battery is not None and battery.power_plugged is False
