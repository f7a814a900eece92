"""Builds a support bundle: facts for a bug report, without personal data.

Facts are selected field by field; free text is redacted. The log contributes only lines that ingle
itself wrote.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from ingle.models.catalog import Catalog
from ingle.models.store.model_store import ModelStore

from ..retention.data_inventory import DATA_INVENTORY, measure
from ..routing.policy.policy_file import FILE_NAME, PolicyError, load_policy
from ..settings.config import Config
from ..stores.log_files import KEPT, rotated
from .redactor import Redactor
from .system_state import DoctorReport, SystemState

LOG_LINES = 500
_LOG_BYTES = 2**20
_TEXT_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ (?:ingle|uvicorn)[\w.]*: )(.*)"
)
_PACKAGES = (
    *("ingle", "httpx", "huggingface-hub", "jinja2", "llama-cpp-python", "llguidance", "msgspec"),
    *("numpy", "psutil", "starlette", "textual", "uvicorn", "uvloop", "torch", "triton"),
    *("cuda-core", "safetensors", "tokenizers", "keyring", "sqlcipher3"),
)
_README = """\
A report about ingle, made by `ingle doctor --bundle`. It contains versions, a description of the
machine, the doctor's findings, settings that differ from their defaults, sizes of stored data, and
the last lines that ingle wrote to its log. It contains no prompt, answer, file, key, path, address,
or name of a person, a machine or a model of the owner's own: {count} such items were removed.
Everything is text; read it before you send it.
"""


def make_bundle(
    config: Config, report: DoctorReport, *, with_models: bool
) -> tuple[dict[str, bytes], int]:
    """Return the files of the bundle by name, and the number of redactions."""
    catalog = Catalog.load()
    store = ModelStore(config.paths.models, catalog)
    secrets = _secrets(config)
    if not with_models:
        own = [model.name for model in store.list() if catalog.find(model.name) is None]
        secrets |= {name: f"(model {number})" for number, name in enumerate(own, 1)}
    redactor = Redactor(secrets, _words(config))
    documents: dict[str, Any] = {
        "versions.json": _versions(report.situation),
        "machine.json": _machine(report.situation, redactor),
        "findings.json": [
            {"code": each.code, "severity": each.severity, "what": redactor.text(each.what)}
            for each in report.findings
        ],
        "settings.json": _settings(config),
        "models.json": _models(store, catalog, with_names=with_models),
        "kept.json": [
            {"place": place.name, "count": found.count, "bytes": found.bytes}
            for place in DATA_INVENTORY
            for found in [measure(place, config)]
        ],
    }
    files = {
        name: json.dumps(document, indent=2).encode() + b"\n"
        for name, document in documents.items()
    }
    files["log.txt"] = "".join(_log_lines(config.paths.log, redactor)).encode()
    readme = _README.format(count=redactor.count).encode()
    return {"README.txt": readme, **files}, redactor.count


def write_bundle(path: Path, files: dict[str, bytes]) -> None:
    """Write a compressed archive that only its owner can read; raises `FileExistsError`,
    `OSError`.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"ingle-report/{name}")  # no owner, no time
            entry.size, entry.mode = len(text), 0o600
            archive.addfile(entry, io.BytesIO(text))
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content.getvalue())


def _versions(situation: SystemState) -> dict[str, Any]:
    """Return the versions of ingle, its dependencies, engines and the running daemon."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    software = situation.machine.software
    daemon = {"state": situation.daemon.state, "version": situation.daemon.version}
    return {
        "python": software.python,
        "packages": found,
        "engines": situation.engines,
        "daemon": daemon,
    }


def _machine(situation: SystemState, redactor: Redactor) -> dict[str, Any]:
    """Return processor, memory, graphics, disk and system, without names that the user chose."""
    of = situation.machine
    gpus = [_without(msgspec.to_builtins(gpu), "uuid", "processes") for gpu in of.gpus]
    software = msgspec.to_builtins(of.software)
    if software["llama_cpp"]:
        software["llama_cpp"]["error"] = redactor.text(software["llama_cpp"]["error"])
    disk: dict[str, Any] = msgspec.to_builtins(of.disk) if of.disk is not None else {}
    return {
        "cpu": msgspec.to_builtins(of.cpu),
        "memory": msgspec.to_builtins(of.memory),
        "gpus": gpus,
        "disk": _without(disk, "folder"),
        "software": software,
        "limits": msgspec.to_builtins(situation.limits),
        "port_taken": situation.port.taken,
        "other_engines": len(situation.neighbours),
        "folders": [
            _without(msgspec.to_builtins(f), "path", "problem", "hint") for f in situation.folders
        ],
    }


def _settings(config: Config) -> dict[str, Any]:
    """Return the values of numbers and choices; of other texts only that they are set, of lists
    the length.
    """
    shown: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in ("paths", "socket"):
            continue
        default = None if field.default is MISSING else field.default
        if value == default or isinstance(value, bool | int | float):
            shown[field.name] = str(value) if isinstance(value, Path) else value
        elif isinstance(value, tuple):
            shown[field.name] = f"(a list of {len(value)})"  # pyright: ignore[reportUnknownArgumentType]
        else:
            shown[field.name] = value if value in _choices() else "(set)"
    return shown


def _log_lines(log: Path, redactor: Redactor) -> Iterator[str]:
    """Return the last lines, redacted; of lines that others printed only the length."""
    for line in _last_lines(log):
        if line.startswith("{"):
            yield _json_line(line, redactor)
        elif found := _TEXT_LINE.fullmatch(line):
            yield f"{found[1]}{redactor.text(found[2])}\n"
        else:
            yield _foreign(line)


def _json_line(line: str, redactor: Redactor) -> str:
    try:
        record = msgspec.json.decode(line, type=dict[str, Any])
        shown = {name: str(record[name]) for name in ("time", "level", "logger")}
        shown["message"] = redactor.text(str(record["message"]))
    except (msgspec.MsgspecError, KeyError):
        return _foreign(line)
    if not re.fullmatch(
        r"[\d:.TZ-]+ [a-z]+ (?:ingle|uvicorn)[\w.]*", " ".join(list(shown.values())[:3])
    ):
        return _foreign(line)
    if "error" in record:
        shown["error"] = redactor.text(str(record["error"]))
    return json.dumps(shown) + "\n"


def _foreign(line: str) -> str:
    return f"(a line of {len(line)} characters, not written by ingle)\n"


def _last_lines(log: Path) -> list[str]:
    lines: list[str] = []
    for path in (log, *(rotated(log, number) for number in range(1, KEPT + 1))):
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - _LOG_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            continue
        lines = text.splitlines() + lines
        if len(lines) >= LOG_LINES:
            break
    return lines[-LOG_LINES:]


def _without(facts: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in names}


def _choices() -> frozenset[str]:
    """Return the values of settings that take one of a fixed set."""
    from ingle.backends.registry.engines import engine_choices
    from ingle.models.kv_type import KVType

    from ..settings.setting_parsers import (
        FLASH_ATTENTION,
        LOG_FORMATS,
        LOG_LEVELS,
        QUANTIZE,
        SPECULATION,
    )

    kinds = (engine_choices(), FLASH_ATTENTION, LOG_FORMATS, LOG_LEVELS, QUANTIZE, SPECULATION)
    return frozenset(chain(KVType, *kinds))


def _models(store: ModelStore, catalog: Catalog, *, with_names: bool) -> list[dict[str, Any]]:
    """Return facts about installed models; names only of catalog models."""
    return [
        {
            "name": model.name if with_names or catalog.find(model.name) else "(one of your own)",
            "size": model.size,
            "parameters": model.parameters,
            "quantization": model.quantization,
            "context": model.context,
            "task": str(model.task),
        }
        for model in store.list()
    ]


def _secrets(config: Config) -> dict[str, str]:
    """Return the marks that replace names of the user, of the machine and in the settings."""
    paths = config.paths
    folders = (paths.config, paths.models, paths.state, paths.runtime, paths.chats, Path.home())
    found = {str(folder): "(folder)" for folder in folders}
    found |= {part: "(folder)" for part in (os.environ.get("INGLE_HOME", ""), os.getcwd()) if part}  # noqa: PTH109
    for name in (_user(), platform.node(), Path.home().name):
        found[name] = "(name)"
    for alias, model in config.aliases:
        found |= {alias: "(alias)", model: "(model)"}
    for name in (config.default_model, config.unknown_model, *config.pinned, *config.preload):
        if Catalog.load().find(name) is None:
            found[name] = "(model)"
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""


def _words(config: Config) -> tuple[str, ...]:
    """Return the private words of the routing policy."""
    try:
        return load_policy(config.paths.config / FILE_NAME).words
    except PolicyError:
        return ()
