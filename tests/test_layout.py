"""Repository layout: packages, documentation paths, import contracts and pinned versions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("backends", "daemon", "kernels", "models", "tui")


UNLISTED = {"ingle.backends.testing"}
"""Packages that only tests and benchmarks import: in a checkout, but not in the wheel."""


def test_every_package_is_listed() -> None:
    """An unlisted package works in a checkout and is missing from the wheel."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    inits = (init for folder in FOLDERS for init in (ROOT / folder).rglob("__init__.py"))
    on_disk = (".".join(init.parent.relative_to(ROOT).parts) for init in inits)
    assert listed == sorted({f"ingle.{name}" for name in on_disk} - UNLISTED)


def test_documented_paths_exist() -> None:
    """Paths of modules and folders in `docs/` and the README."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    pattern = re.compile(r"`((?:backends|bench|daemon|kernels|models|scripts|tui)/[\w./-]+)`")
    named = {(page.name, path) for page in pages for path in pattern.findall(page.read_text())}
    named -= {("kernels.md", "kernels/cubins")}  # made by scripts/build-kernels
    named = {(page, path) for page, path in named if "NAME" not in path}  # stands for a name
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


def test_client_import_contract_lists_all_siblings() -> None:
    """The import contract of `daemon.client` names all its siblings."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (
        each
        for each in contracts["contracts"]
        if each.get("source_modules") == ["ingle.daemon.client"]
    )
    siblings = {path.parent.name for path in (ROOT / "daemon").glob("*/__init__.py")}
    siblings |= {path.stem for path in (ROOT / "daemon").glob("*.py")} - {"__init__"}
    named = {name.removeprefix("ingle.daemon.") for name in contract["forbidden_modules"]}
    assert siblings - {"client"} <= named


def test_packaging_has_no_init() -> None:
    """With one, this folder would shadow the `packaging` library in a checkout."""
    assert not (ROOT / "packaging" / "__init__.py").exists()


@pytest.mark.parametrize(
    "module", ["ingle.daemon.server.daemon_server", "ingle.daemon.main", "ingle.tui.main"]
)
def test_no_engine_is_imported_outside_workers(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "heavy = {'torch', 'triton', 'llama_cpp', 'llguidance', 'jinja2'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_versions_are_pinned_and_no_index_is_configured() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = project["tool"]["uv"]["constraint-dependencies"]
    assert all("==" in pin for pin in pins)
    pinned = {re.split(r"[=; ]", pin)[0] for pin in pins}
    for requirement in project["project"]["dependencies"] + project["dependency-groups"]["test"]:
        assert re.split(r"[\[<>=; ]", requirement)[0] in pinned
    assert "index" not in project["tool"]["uv"]
    assert not (ROOT / "uv.lock").exists() or "uv.lock" in (ROOT / ".gitignore").read_text()
