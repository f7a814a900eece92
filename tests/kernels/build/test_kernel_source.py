from __future__ import annotations

from pathlib import Path

import pytest

from ingle.kernels.build.kernel_source import CSRC, kernel_source


@pytest.mark.parametrize("path", sorted(CSRC.glob("*.cuh")), ids=lambda path: path.name)
def test_every_header_is_included_once(path: Path) -> None:
    text = kernel_source(path.name)
    for other in CSRC.glob("*.cuh"):
        first = next(line for line in other.read_text().splitlines() if line.startswith("// "))
        assert text.count(first) <= 1
    assert "#pragma once" not in text
    assert [line for line in text.splitlines() if line.startswith("#include")] in (
        [],
        ['#include "cuda_shim.h"'],
    )


def test_defines_come_first_and_line_numbers_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "own.cuh"
    source.write_text('#include "portable.cuh"\nlast\n')
    lines = kernel_source(str(source), {"A": "1", "B": "x(2)"}).splitlines()
    assert lines[:2] == ["#define A 1", "#define B x(2)"]
    assert lines[-2:] == [f'#line 2 "{source}"', "last"]
