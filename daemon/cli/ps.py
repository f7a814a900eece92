"""`ingle ps`: the loaded models, and where the daemon listens."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..config import load_config
from .daemon_process import running_daemon
from .output import format_bytes, format_seconds, format_table, print_json, table_columns, visible
from .parser import CommandParser
from .wire import LoadedModel, Status

HEADERS = ("NAME", "STATE", "DEVICE", "CONTEXT", "KV", "RUNNING", "MEMORY", "EXPIRES")


def main(arguments: Sequence[str]) -> int:
    """Print what runs, without starting anything; raises `CommandError`."""
    parser = CommandParser("ps", "Show the loaded models, and where the daemon listens.")
    parser.add_json()
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
        print_json({"daemon": "running", **status})
    else:
        _print_status(status)
    return 0


def _print_status(status: Status) -> None:
    up = format_seconds(status["uptime"])
    print(visible(f"ingle {status['version']}, pid {status['pid']}, up {up}"))
    print(visible(f"listens on {status['socket']}"))
    if status["address"]:
        print(visible(f"       and http://{status['address']}"))
    else:
        print("       and not on TCP: the port is taken by another program, or turned off")
    print()
    if not status["models"]:
        print("No model is loaded.")
        return
    rows = [_row(model) for model in status["models"]]
    print(format_table(HEADERS, rows, right="CONTEXT KV RUNNING MEMORY", columns=table_columns()))
    for model in status["models"]:
        for note in _notes(model):
            print(visible(f"\n{model['name']}: {note}"))


def _row(model: LoadedModel) -> list[str]:
    state = model["state"]
    if state == "starting":
        state = f"starting {model['fraction']:.0%}"
    capacity = model["kv_capacity"]
    predicted = model["weights_bytes"] + model["kv_bytes"] + model["compute_bytes"]
    return [
        model["name"],
        state,
        model["device"] or "-",
        str(model["context"] or "-"),
        f"{model['kv_used'] / capacity:.0%}" if capacity else "-",
        _running(model),
        format_bytes(model["rss"] or predicted),
        _expires(model),
    ]


def _notes(model: LoadedModel) -> list[str]:
    """What is out of the ordinary."""
    notes = [model["error"]] if model["error"] else []
    if model["kv_type"].startswith("q"):
        notes.append(f"The KV cache is quantized to {model['kv_type']}.")
    return notes + model["warnings"]


def _running(model: LoadedModel) -> str:
    waiting = f"+{model['waiting']}" if model["waiting"] else ""
    return f"{model['running']}{waiting}"


def _expires(model: LoadedModel) -> str:
    if model["state"] != "ready":
        return "-"
    if (seconds := model["expires_in"]) is not None:
        return format_seconds(seconds)
    return "in use" if model["running"] or model["waiting"] else "never"
