"""Edits to JSON, TOML, YAML and Vim settings keep the rest of the file byte for byte."""

from __future__ import annotations

import json
from pathlib import Path as FilePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.daemon.config_editing.block_document import BLOCK
from ingle.daemon.config_editing.document_path import (
    ABSENT,
    CannotEdit,
    DocumentItem,
    Path,
    find,
    without_empty,
)
from ingle.daemon.connect.settings_file import ProgramSetting, SettingsFile, parse


def edit(form: str, text: str, *pairs: tuple[Path, object], exact: bool = False) -> str:
    """Edit the text; check that the edit is idempotent and can be undone."""
    file = SettingsFile(FilePath("x"), form, [ProgramSetting(path, value) for path, value in pairs])
    previous = file.places(text)
    new = file.edited(text)
    assert file.edited(new) == new
    back = file.restored(new, previous)
    before, after = parse(text, form).data, parse(back, form).data
    assert without_empty(after) == without_empty(before)
    if exact:
        assert back == text
    return new


ZED = """\
// Zed settings
{
  "theme": "One Dark", // the good one
  "vim_mode": true,
  /* models */
  "language_models": {
    "openai": {
      "version": "1", // keep
    },
  },
  // the end
}
"""


def test_jsonc_keeps_comments_and_trailing_commas() -> None:
    new = edit("json", ZED, (("language_models", "ollama", "api_url"), "http://x"), exact=True)
    assert new == ZED.replace(
        '      "version": "1", // keep\n    },\n',
        '      "version": "1", // keep\n    },\n'
        '    "ollama": {\n      "api_url": "http://x"\n    },\n',
    )


def test_json_comment_after_the_last_member() -> None:
    text = '{\n\t"a": 1 // one\n}\n'
    new = edit("json", text, (("b", "c"), [1, "ä"]), exact=True)
    assert new == '{\n\t"a": 1, // one\n\t"b": {\n\t\t"c": [\n\t\t\t1,\n\t\t\t"ä"\n\t\t]\n\t}\n}\n'


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// nothing yet\n", '// nothing yet\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{"a": {"b": 1}}'),
        ('{"x": 2}', '{"x": 2, "a": {"b": 1}}'),
        ('{"a": {}}', '{"a": {"b": 1}}'),
        ('{"a": null}', '{"a": {"b": 1}}'),
        ('{"a": {"b": 7}, "c": [1, 2]}', '{"a": {"b": 1}, "c": [1, 2]}'),
        ('{\r\n  "x": 1\r\n}\r\n', None),
        ("{\n}\n", None),
        ("{\n  // empty\n}\n", '{\n  // empty\n  "a": {\n    "b": 1\n  }\n}\n'),
    ],
)
def test_json_insertion_into_various_layouts(text: str, new: str | None) -> None:
    changed = edit("json", text, (("a", "b"), 1))
    assert new is None or changed == new
    assert changed.count("\r\n") in (0, changed.count("\n"))


def test_json_list_items_are_identified_by_a_field() -> None:
    text = '[\n    {\n        "name": "mine",\n        "vendor": "x"\n    }\n]\n'
    path: Path = (DocumentItem("name", "ingle"),)
    new = edit("json", text, (path, {"name": "ingle", "url": "u"}))
    assert json.loads(new) == [{"name": "mine", "vendor": "x"}, {"name": "ingle", "url": "u"}]
    assert new.startswith(text.removesuffix("\n]\n"))
    again = edit("json", new, (path, {"name": "ingle", "url": "v"}))
    assert json.loads(again)[1] == {"name": "ingle", "url": "v"}
    assert edit("json", "", (path, {"name": "ingle"})) == '[\n  {\n    "name": "ingle"\n  }\n]\n'


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{,}",
        '{"a" 1}',
        '{"a": 1 "b": 2}',
        "{'a': 1}",
        "{} {}",
        '{"a": tru}',
        '{"a": 1, "a": 2}',
        *("[" * 5000, '{"a": "\x00"}', "nonsense", "/* open"),
    ],
)
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(CannotEdit, match="not JSON"):
        parse(text, "json")


@pytest.mark.parametrize("text", ["[]", '"x"', '{"a": []}', '{"a": 3}'])
def test_json_value_of_an_unexpected_type_is_rejected(text: str) -> None:
    with pytest.raises(CannotEdit, match="is not an object"):
        edit("json", text, (("a", "b"), 1))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    data=st.dictionaries(st.text(max_size=3), values, max_size=4),
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_any_json_object_can_be_edited_and_restored(
    data: dict[str, object], indent: int | str | None
) -> None:
    data.pop("k", None)
    text = json.dumps(data, indent=indent) + "\n"
    new = edit("json", text, (("k", "l"), {"m": [1]}), (("n-n",), "o"))
    assert json.loads(new) == {**data, "k": {"l": {"m": [1]}}, "n-n": "o"}


CODEX = """\
# my codex
model = "gpt-5" # the big one
approval_policy = "never"

# servers
[mcp_servers.files]
command = "npx"
args = ["-y", "x"]

[tui]
theme = "dark" # at night
"""


def test_toml_codex_config() -> None:
    table = {"name": "ingle", "base_url": "http://x/v1"}
    new = edit(
        "toml",
        CODEX,
        (("model",), "qwen"),
        (("model_provider",), "ingle"),
        (("model_providers", "ingle"), table),
        exact=True,
    )
    assert (
        new
        == CODEX.replace('model = "gpt-5"', 'model = "qwen"').replace(
            '"never"\n', '"never"\nmodel_provider = "ingle"\n'
        )
        + '\n[model_providers.ingle]\nname = "ingle"\nbase_url = "http://x/v1"\n'
    )
    again = edit("toml", new, (("model_providers", "ingle"), {**table, "base_url": "http://y/v1"}))
    assert again == new.replace("http://x", "http://y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "[a]\nb = 1\n",
        "# of the table\n[a]\nb = 1",
        '[model_providers.other]\nname = "x"\n\n[model_providers.other.http_headers]\na = "b"\n',
        "x = 1\r\n\r\n[a]\r\nb = 2\r\n",
    ],
)
def test_toml_insertion_into_various_layouts(text: str) -> None:
    edit("toml", text, (("model",), "q"), (("model_providers", "ingle"), {"name": "n"}))


def test_toml_removal_keeps_the_comment_of_the_next_table() -> None:
    file = SettingsFile(FilePath("x"), "toml", [ProgramSetting(("a", "ingle"), {"b": 1})])
    text = "[a.ingle]\nb = 1\n\n# of the next\n[next]\nc = 1\n"
    back = file.restored(text, [(("a", "ingle"), ABSENT)])
    assert back.lstrip() == "# of the next\n[next]\nc = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "model_providers = { other = { name = 1 } }\n",
        "model_providers = 3\n",
        'x = """\n[model_providers.ingle]\n"""\n',
    ],
)
def test_toml_inline_tables_are_not_edited(text: str) -> None:
    with pytest.raises(CannotEdit):
        edit("toml", text, (("model_providers", "ingle"), {"name": "n"}))


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 10_000, "a = " + "9" * 10_000, "a", "a = 1\na = 2"]
)
def test_invalid_toml_is_rejected(text: str) -> None:
    with pytest.raises(CannotEdit, match="not TOML"):
        parse(text, "toml")


CONTINUE = """\
name: Mine  # my own
version: 1.0.0
schema: v1

models:
  # the cloud
  - name: GPT
    provider: openai
    model: gpt-4o
    roles:
      - chat # only
  # the end of the models

rules:
  - be brief
"""
INGLE_MODEL = {
    "name": "ingle",
    "provider": "openai",
    "model": "qwen2.5-coder:1.5b",
    "roles": ["chat"],
}
MODELS: Path = ("models", DocumentItem("name", "ingle"))


def test_yaml_continue_config() -> None:
    new = edit("yaml", CONTINUE, (MODELS, INGLE_MODEL), exact=True)
    assert new == CONTINUE.replace(
        "      - chat # only\n",
        "      - chat # only\n"
        "  - name: ingle\n    provider: openai\n"
        '    model: "qwen2.5-coder:1.5b"\n    roles:\n      - chat\n',
    )
    again = edit("yaml", new, (MODELS, {**INGLE_MODEL, "model": "other"}))
    assert again == new.replace('"qwen2.5-coder:1.5b"', "other")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "name: x\n",
        "name: x",
        "models: []\n",
        "models:\nname: x\n",
        "models: null\nname: x\n",
        'models: [{"name": "a"}]\nname: x\n',
        "models:\n- name: a\n- name: b\nother: 1\n",
        "models:\n- name: a\n  text: |\n    one\n    two\n\nother: 1\n",
        "models:\r\n  - name: a\r\nother: 1\r\n",
        "---\nmodels:\n  - name: a",
        "models:\n  - {name: a, model: b}\n  - {name: c}\n# end\n",
    ],
)
def test_yaml_insertion_into_various_layouts(text: str) -> None:
    form, path = "yaml", MODELS
    file = SettingsFile(
        FilePath("x"),
        form,
        [ProgramSetting(path, INGLE_MODEL), ProgramSetting(("version",), "1.0")],
    )
    new = file.edited(text)
    assert file.edited(new) == new
    assert find(parse(new, form).data, path) == INGLE_MODEL
    previous = file.places(text)
    try:
        back = parse(file.restored(new, previous), form).data
    except CannotEdit:
        assert "[{" in text
    else:
        assert without_empty(back) == without_empty(parse(text, form).data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("- a\n- b\n", "not an object"),
        ("{a: 1}\n", "not a list of keys"),
        ("models: 3\n", "not a list"),
        ("models:\n  name: ingle\n", "not a list"),
        ("a: !!python/object:os.system 1\n", "not YAML"),
    ],
)
def test_unsupported_yaml_is_rejected(text: str, message: str) -> None:
    with pytest.raises(CannotEdit, match=message):
        edit("yaml", text, (MODELS, INGLE_MODEL))


def test_marked_block_is_inserted_and_replaced() -> None:
    text = 'set number\n" my own\nlet g:x = 1\n'
    new = edit("vim", text, ((BLOCK,), "let g:llama_config = {}\nlet g:y = 2"), exact=True)
    assert new.endswith(text)
    assert new.startswith('" >>> ingle')
    again = edit("vim", new, ((BLOCK,), "let g:y = 3"))
    assert "let g:y = 2" not in again
    assert again.endswith(text)
    assert edit("lua", "", ((BLOCK,), "x = 1")).startswith("-- >>> ingle")


def test_places_records_the_previous_values() -> None:
    file = SettingsFile(
        FilePath("x"), "json", [ProgramSetting(("a", "b", "c"), 1), ProgramSetting(("d",), 2)]
    )
    assert file.places('{"a": {}, "d": 1}') == [
        (("a", "b"), ABSENT),
        (("a", "b", "c"), ABSENT),
        (("d",), 1),
    ]


def test_removal_keeps_keys_added_by_the_user() -> None:
    file = SettingsFile(FilePath("x"), "json", [ProgramSetting(("env", "A"), "1")])
    previous = file.places("{}")
    new = '{"env": {"A": "1", "THEIRS": "2"}}'
    assert file.restored(new, previous) == '{"env": {"THEIRS": "2"}}'
