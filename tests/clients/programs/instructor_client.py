"""instructor: structured output by tool call and by JSON schema."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

openai: Any = import_module("openai")
pydantic: Any = import_module("pydantic")
instructor: Any = import_module("instructor")

Capital: Any = pydantic.create_model("Capital", city=(str, ...))
MODES = {"tools": instructor.Mode.TOOLS, "json": instructor.Mode.JSON_SCHEMA}


def main(part: str, mode: str) -> dict[str, object]:
    """The parsed answer of a real model, streamed, or of a scripted one."""
    client = instructor.from_openai(
        openai.OpenAI(base_url=f"{os.environ['BASE_URL']}/v1", api_key="none", max_retries=0),
        mode=MODES[mode],
    )
    asked: dict[str, Any] = {
        "response_model": Capital,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_retries": 0,
    }
    if part == "callsATool":
        found = client.chat.completions.create(model=os.environ["SCRIPTED_MODEL"], **asked)
        return {"called": found.city}
    asked |= {"model": os.environ["REAL_MODEL"], "temperature": 0, "max_tokens": 200}
    states = list(client.chat.completions.create_partial(**asked))
    return {"answer": states[-1].city, "pieces": len(states)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
