"""Provider keys in a real GNOME keyring, on a separate session bus."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("gnome-keyring-daemon", "dbus-run-session")
KEY = "sk-of-nobody-0123456789"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, TOOLS)), reason="no apt-get install gnome-keyring dbus here"
    ),
]

SET_GET_REMOVE = f"""
from pathlib import Path
from ingle.daemon.routing.providers.provider_keys import ProviderKeys
keys = ProviderKeys(Path("state").absolute())
print(keys.set("acme", {KEY!r}))
print(ProviderKeys(Path("state").absolute()).get("acme") == {KEY!r})
print(ProviderKeys(Path("elsewhere").absolute()).get("acme"))
print({KEY!r} in Path("state/provider-keys.json").read_text())
print(keys.remove("acme"), keys.get("acme"))
"""


def run(folder: Path, daemon: str, program: str) -> list[str]:
    """The output of the program, beside a keyring that was started with the given command."""
    here = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder)}
    gone = {"DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"}
    environ = {name: text for name, text in os.environ.items() if name not in gone}
    script = f'{daemon} >/dev/null 2>&1; exec "$0" -P -c "$1"'
    done = subprocess.run(
        ["dbus-run-session", "--", "sh", "-c", script, sys.executable, program],
        cwd=folder,
        env={**environ, **here},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_key_is_set_read_and_removed(tmp_path: Path) -> None:
    unlocked = "printf pw | gnome-keyring-daemon --unlock --components=secrets"
    lines = run(tmp_path, unlocked, SET_GET_REMOVE)
    assert lines == ["keyring", "True", "None", "False", "True None"]


def test_locked_keyring_falls_back_to_the_file(tmp_path: Path) -> None:
    locked = "gnome-keyring-daemon --start --components=secrets"
    lines = run(tmp_path, locked, SET_GET_REMOVE)
    assert lines == ["file", "True", "None", "True", "True None"]
