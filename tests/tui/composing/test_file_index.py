"""The index of files for completion, with and without git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ingle.tui.composing.file_index import index_files, list_folder


def fill(folder: Path) -> None:
    for name in ("a.py", "src/b.py", "src/node_modules/c.js", ".hidden/d", "odd\nname"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def test_walk_without_git_skips_hidden_and_dependency_folders(tmp_path: Path) -> None:
    fill(tmp_path)
    index = index_files(tmp_path)
    assert index == ("src/", "a.py", "src/b.py")


def test_gitignored_files_are_not_indexed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    fill(tmp_path)
    (tmp_path / ".gitignore").write_text("node_modules\n*.log\n")
    (tmp_path / "x.log").write_text("")
    paths = index_files(tmp_path)
    assert "src/b.py" in paths
    assert ".gitignore" in paths
    assert not [path for path in paths if "node_modules" in path or path == "x.log"]


def test_repository_config_cannot_run_programs(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    fill(tmp_path)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    command = ["git", "-C", str(tmp_path), "config", "core.fsmonitor", str(trap)]
    subprocess.run(command, check=True)
    assert "a.py" in index_files(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_folder_outside_is_listed_with_the_typed_prefix(tmp_path: Path) -> None:
    fill(tmp_path)
    below = tmp_path / "src"
    assert list_folder("../", below) == ["../a.py", "../src/"]
    assert list_folder(f"{tmp_path}/s", below) == [f"{tmp_path}/a.py", f"{tmp_path}/src/"]
    assert list_folder("../.h", below)[0] == "../.hidden/"
    assert list_folder("../none/", below) == []
