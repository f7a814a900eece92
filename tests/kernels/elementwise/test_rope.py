from __future__ import annotations

import math

import torch

from ingle.kernels.elementwise.rope import rope_reference, rotary_tables


def test_pairs_are_half_the_rotated_size_apart() -> None:
    query = torch.zeros(1, 1, 6)
    query[0, 0, 0] = 1.0
    key = torch.zeros(1, 1, 6)
    key[0, 0, 3] = 1.0
    cosine, sine = rotary_tables(torch.tensor([1]), torch.tensor([math.pi / 6, 0.0]), 1.0)
    rope_reference(query, key, cosine, sine)
    # Four of six elements rotate: the partner of 0 is 2; 3 belongs to the second pair, which stays.
    assert torch.allclose(query[0, 0], torch.tensor([math.cos(math.pi / 6), 0, 0.5, 0, 0, 0]))
    assert torch.equal(key[0, 0], torch.tensor([0.0, 0, 0, 1, 0, 0]))


def test_scores_depend_only_on_distances() -> None:
    query, key = torch.randn(1, 2, 16), torch.randn(1, 2, 16)
    frequencies = 10000.0 ** (-torch.arange(0, 16, 2) / 16)

    def score(at: int, seen_at: int) -> torch.Tensor:
        turned, seen, unused = query.clone(), key.clone(), torch.zeros(1, 1, 16)
        rope_reference(turned, unused, *rotary_tables(torch.tensor([at]), frequencies, 1.0))
        rope_reference(unused, seen, *rotary_tables(torch.tensor([seen_at]), frequencies, 1.0))
        return (turned * seen).sum(-1)

    assert torch.allclose(score(9, 4), score(109, 104), atol=1e-4)
    assert not torch.allclose(score(9, 4), score(9, 5), atol=1e-2)


def test_half_precision_is_rotated_in_place() -> None:
    query, key = torch.randn(3, 4, 8).half(), torch.randn(3, 2, 8).half()
    expected_query, expected_key = query.float(), key.float()
    tables = rotary_tables(torch.tensor([0, 5, 1000]), torch.tensor([1.0, 0.1, 0.01, 0.001]), 1.2)
    rope_reference(expected_query, expected_key, *tables)
    rope_reference(query, key, *tables)
    assert torch.allclose(query.float(), expected_query, atol=4e-3)
    assert torch.allclose(key.float(), expected_key, atol=4e-3)
