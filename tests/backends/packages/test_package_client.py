"""What is read from the output of uv and of a build, and the options for both clients."""

from __future__ import annotations

import pytest

from ingle.backends.packages.errors import InstallFailed
from ingle.backends.packages.package_client import (
    OutputReader,
    failure_of,
    has_compiler,
    missing_compiler,
)
from ingle.backends.packages.package_source import ClientProgress, PackageSource

DOWNLOADS = """\
DEBUG Selecting: torch==2.13.0 [compatible] (torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl)
Downloading torch (508.9MiB)
Downloading nvidia-cudnn-cu13 (1.5GiB)
 Downloaded torch
DEBUG Released lock at `/tmp/uv.lock`
 Downloaded nvidia-cudnn-cu13
"""
BUILD = """\
DEBUG *** Building project with Ninja...
DEBUG [1/136] Building CXX object vendor/llama.cpp/ggml/src/CMakeFiles/ggml-base.dir/ggml.cpp.o
DEBUG [80/136] : && /usr/bin/c++ -O3 -shared -o vendor/llama.cpp/bin/libllama.so
DEBUG [80/136] : && /usr/bin/c++ -O3 -shared -o vendor/llama.cpp/bin/libllama.so
"""


def read(text: str) -> list[ClientProgress]:
    reader = OutputReader()
    return [step for line in text.splitlines() if (step := reader.feed(line)) is not None]


def test_downloads_are_summed() -> None:
    torch, cudnn = int(508.9 * 2**20), int(1.5 * 2**30)
    assert read(DOWNLOADS) == [
        ClientProgress("downloading", 0, torch, "torch"),
        ClientProgress("downloading", 0, torch + cudnn, "nvidia-cudnn-cu13"),
        ClientProgress("downloading", torch, torch + cudnn, "nvidia-cudnn-cu13"),
        ClientProgress("downloading", torch + cudnn, torch + cudnn, ""),
    ]


def test_steps_of_a_build_are_counted() -> None:
    assert read(BUILD) == [
        ClientProgress("building", 1, 136, "ggml.cpp"),
        ClientProgress("building", 80, 136, ""),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["error: Failed to fetch: `https://index/torch`", "  Caused by: timed out"],
            "Failed to f",
        ),
        (["  × No solution found", "  ╰─▶ Because torch was not found"], "Because torch was not"),
        (["OSError: [Errno 28] No space left on device"], "The disk is full"),
        (["CMake Error: CMAKE_CXX_COMPILER not set"], "no C\\+\\+ compiler"),
        (["ERROR: No matching distribution found for torch"], "No matching distribution"),
        ([], "status 2"),
    ],
)
def test_failure_contains_the_cause(lines: list[str], message: str) -> None:
    with pytest.raises(InstallFailed, match=message) as failed:
        raise failure_of(lines, 2)
    assert failed.value.hint


@pytest.mark.parametrize(
    ("source", "uv", "pip"),
    [
        (PackageSource(), [], []),
        (PackageSource(offline=True), ["--offline"], ["--no-index"]),
        (PackageSource("/usb"), ["--no-index", "--find-links", "/usb"], None),
        (PackageSource("/usb", offline=True), ["--no-index", "--find-links", "/usb"], None),
        (PackageSource("https://x"), ["--index", "https://x"], ["--extra-index-url", "https://x"]),
    ],
)
def test_source_becomes_options(
    source: PackageSource, uv: list[str], pip: list[str] | None
) -> None:
    assert source.arguments(uv=True) == uv
    assert source.arguments(uv=False) == (uv if pip is None else pip)


def test_compiler_is_found_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_compiler()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert not has_compiler()
    assert missing_compiler().hint == "Install g++."
