"""Static checks of the Homebrew formula and of the Debian package."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from ingle.daemon.main import COMMANDS

PACKAGING = Path(__file__).resolve().parent.parent.parent / "packaging"

DAEMON = b"/usr/lib/ingle/bin/python\0-P\0-m\0ingle.daemon.main\0serve\0"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """The program that builds the Debian package."""
    loader = SourceFileLoader("debian_build", str(PACKAGING / "deb/build"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_homebrew_formula_is_valid_ruby() -> None:
    formula = PACKAGING / "homebrew/ingle.rb"
    text = formula.read_text()
    assert "Not yet run" in text
    assert text.count("do\n") + text.count("def ") + text.count("class ") == text.count("end\n")
    ruby = shutil.which("ruby")
    if ruby is not None:
        subprocess.run([ruby, "-wc", formula], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["prerm", "postrm"])
def test_maintainer_scripts_are_valid_shell(name: str) -> None:
    path = PACKAGING / "deb" / name
    subprocess.run(["sh", "-n", path], check=True)
    assert path.stat().st_mode & 0o111


def test_removal_is_silent_about_processes_that_ended(tmp_path: Path) -> None:
    for pid, words in (("1", None), ("12", b"/bin/true\0"), ("123", DAEMON)):
        (tmp_path / pid).mkdir()
        if words is not None:
            (tmp_path / pid / "cmdline").write_bytes(words)
    script = (PACKAGING / "deb/prerm").read_text().replace("/proc/", f"{tmp_path}/")
    function = script[script.index("daemons() {") : script.index("running=")]
    done = subprocess.run(["sh", "-c", f"{function}\ndaemons"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("123\n", "")


def test_systemd_units_apply_to_every_user(build: ModuleType) -> None:
    texts: dict[str, str] = build.unit_texts()
    assert "ListenStream=%t/ingle/ingle.sock\n" in texts["ingle.socket"]
    assert 'Environment="INGLE_SOCKET=%t/ingle/ingle.sock"' in texts["ingle.service"]
    assert "@" not in "".join(texts.values()).replace("@system-service", "")


def test_man_page_lists_every_command(build: ModuleType) -> None:
    page: str = build.manual_page("1.2.3")
    assert page.startswith('.TH INGLE 1 "" "ingle 1.2.3"')
    for command in COMMANDS:
        assert command.replace("-", r"\-") in page


def test_package_contains_dependencies_without_test_tools(build: ModuleType) -> None:
    names = {each.metadata["Name"].lower() for each in build.closure("ingle")}
    assert {"starlette", "textual", "msgspec", "jinja2"} <= names
    assert not {"pytest", "torch", "ingle"} & names
