"""The benchmark of topic detection: own prompt sets, halves of public sets, first results."""

from __future__ import annotations

import json
from pathlib import Path

import topics
from grammar import plain

RATE = topics.Rate("fresh", True, 200, 200, 4, 0.02, 0.0, 0.04, {})


def test_fresh_set_is_large_and_disjoint_from_other_sets() -> None:
    sets = topics.own_sets(each=1)
    fresh = [group[0] for one in sets if one.name == "fresh" for group in one.groups]
    others = {
        prompt for one in sets if one.name != "fresh" for group in one.groups for prompt in group
    }
    assert len(set(fresh)) == len(fresh)
    assert not others & set(fresh)
    assert min(len(plain(f"fresh.{kind}")) for kind in ("sensitive", "harmless")) >= 200


def test_variants_of_a_prompt_are_in_the_same_half() -> None:
    beginning = "As a generator of prompts for a program named Midjourney, you will write "
    assert len({topics.is_held_out(f"{beginning}{number} lines.") for number in range(50)}) == 1
    prompts = [
        f"{number:b} of them are wanted".replace("0", "o").replace("1", "l")
        for number in range(400)
    ]
    both = topics.halves("PUPA", True, prompts)
    assert sum(len(half.groups) for half in both) == len(prompts)
    assert all(len(half.groups) > 120 for half in both)
    assert all(topics.is_held_out(prompt) for (prompt,) in both[0].groups)


def test_first_results_of_a_set_are_not_overwritten(tmp_path: Path) -> None:
    saved = tmp_path / "privacy-topics.json"
    first = topics.first_measured([RATE], saved)
    saved.write_text(json.dumps({"first_measured": first}))
    later = topics.Rate("fresh", True, 200, 200, 1, 0.005, 0.0, 0.01, {})
    other = topics.Rate("fresh", False, 200, 200, 9, 0.045, 0.01, 0.08, {})
    kept = topics.first_measured([later, other], saved)
    assert [(one["sensitive"], one["wrong"]) for one in kept] == [(True, 4), (False, 9)]
