"""Word table: numbering, privacy and thread safety."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from ingle.daemon.routing.detectors.natural_language.word_table import (
    WordTable,
    WordTableColumn,
    matching,
    members,
)


def test_words_keep_their_number_and_digits_are_not_stored() -> None:
    table = WordTable()
    first = table.number(["My", "PIN", "4711", "is", "my", ",", "2"])
    again = table.number(["2", "my", "PIN"])
    assert first.tolist()[2] == first.tolist()[6] == 0
    assert again.tolist() == [0, first[4], first[1]]
    assert not any(word[0].isdigit() for word in table.words)
    assert len(set(first.tolist())) == 6


def test_word_order_of_a_text_is_not_stored() -> None:
    one, other = WordTable(), WordTable()
    one.number(["please", "call", "anna", "tomorrow"])
    other.number(["anna", "call", "tomorrow", "please"])
    assert one.words == other.words


def test_columns_include_words_added_later() -> None:
    table = WordTable()
    kin = members(frozenset({"tochter", "nino"}), folded=True)
    capital = matching(str.istitle)
    lengths = WordTableColumn(np.uint32, partial(map, len), "words")
    for tokens in (["Meine", "Tochter"], ["el", "Niño", "’", "Tochter"]):
        numbers = table.number(tokens)
        assert table.column(lengths)[numbers].tolist() == list(map(len, tokens))
        assert table.column(capital)[numbers].tolist() == list(map(str.istitle, tokens))
        assert table.column(kin)[numbers].tolist() == [
            token in ("Tochter", "Niño") for token in tokens
        ]


def test_table_is_thread_safe() -> None:
    table = WordTable()
    lengths = WordTableColumn(np.uint32, partial(map, len), "words")

    def ask(seed: int) -> bool:
        source = np.random.default_rng(seed)
        for _ in range(200):
            tokens = ["x" * int(size) for size in source.integers(1, 400, 20)]
            numbers = table.number(tokens)
            if table.column(lengths)[numbers].tolist() != list(map(len, tokens)):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(16)))
    assert len(table) == len(set(table.words))
