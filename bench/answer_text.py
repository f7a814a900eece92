"""The fixed text with which the scripted daemon answers: prose, lists, code and tables."""

from __future__ import annotations

import re
from collections.abc import Generator

ANSWER = """\
## The first part

A **model** reads what stands in its context, and writes one token after the other; each of them
takes about as long as the one before. What was read already is kept, so that the *next* turn
begins where this one ended, and `kv_cache` is where it lies.

- the first point says what there is
- the second point has a `name` in it, and **weight**
- the third one is longer than the two before it, so that it has to be wrapped on a small screen

```python
def count_lines(path: Path) -> int:
    with path.open("r", encoding="utf-8") as file:
        return sum(1 for line in file if line.strip())
```

| mode | opens for | an existing file |
|------|-----------|------------------|
| `r`  | reading   | is left alone    |
| `a`  | appending | grows at its end |

1. Then come steps, one after the other.
2. Each has a number, and [a link](https://example.org) now and then.

> Somebody said so, and it is told here in their words.

"""
_WORD = re.compile(r"\s*\S{1,5}|\s+")


def answer_words(count: int) -> Generator[str, None, None]:
    """So many tokens, of up to five characters and the blanks before them."""
    words = [match[0] for match in _WORD.finditer(ANSWER)]
    for index in range(count):
        yield words[index % len(words)]


def answer_text(count: int) -> str:
    """So many tokens in one piece."""
    return "".join(answer_words(count))
