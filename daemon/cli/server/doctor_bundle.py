"""`ingle doctor --bundle`: shows what a support bundle contains, then writes it."""

from __future__ import annotations

import getpass
import os
import platform
import time
from pathlib import Path
from typing import Any

from ingle.models.catalog import Catalog
from ingle.models.store.model_store import ModelStore

from ...doctor.diagnose import diagnose
from ...doctor.redactor import Redactor
from ...doctor.support_bundle import make_bundle, write_bundle
from ...doctor.system_state import SystemState
from ...routing.policy.policy_file import FILE_NAME, PolicyError, load_policy
from ...settings.config import Config
from ...terminal.terminal_output import format_bytes, print_status
from ..command_errors import CommandError


def bundle(config: Config, situation: SystemState, target: str, *, with_models: bool) -> int:
    """Print the bundle if `target` is "-", else write it into that file or folder.

    Raises `CommandError`.
    """
    catalog = Catalog.load()
    store = ModelStore(config.paths.models, catalog)
    models = _models(store, catalog, with_names=with_models)
    names = {} if with_models else _own_names(store, catalog)
    redactor = Redactor(_secrets(config) | names, _words(config))
    files = make_bundle(config, situation, diagnose(situation), redactor, models)
    if target == "-":
        for name, content in files.items():
            print(f"===== {name}\n{content.decode()}")
        return 0
    path = Path(target).expanduser()
    if path.is_dir():
        path /= f"ingle-report-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    for name, content in files.items():
        print(f"{format_bytes(len(content)):>8}  {name}")
    print(f"{redactor.count} names, paths and quotes were removed.")
    try:
        write_bundle(path, files)
    except FileExistsError as error:
        raise CommandError(f"{path} exists.", "Name another file.") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    print(f"Wrote {path}")
    print_status("`ingle doctor --bundle -` prints all of it: read it before you send it.")
    return 0


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


def _own_names(store: ModelStore, catalog: Catalog) -> dict[str, str]:
    own = [model.name for model in store.list() if catalog.find(model.name) is None]
    return {name: f"(model {number})" for number, name in enumerate(own, 1)}


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
    try:
        return load_policy(config.paths.config / FILE_NAME).words
    except PolicyError:
        return ()
