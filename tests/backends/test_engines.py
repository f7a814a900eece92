"""The table of engines agrees with the folders of `backends/` and with the descriptors."""

from __future__ import annotations

from pathlib import Path

from ingle import backends
from ingle.backends.registry.engines import ENGINES, TEST_ENGINES, all_engines, get_engine

FOLDER = Path(backends.__path__[0])


def test_every_descriptor_has_a_line() -> None:
    found = {f"ingle.backends.{path.parent.name}.descriptor" for path in FOLDER.glob("*/desc*.py")}
    assert found == {*ENGINES.values(), *TEST_ENGINES.values()}


def test_an_engine_has_the_name_of_its_line() -> None:
    for name in (*ENGINES, *TEST_ENGINES):
        assert get_engine(name).name == name
    assert len({engine.label for engine in all_engines()}) == len(ENGINES)
