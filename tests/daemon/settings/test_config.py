"""Settings: precedence, validation, and agreement with `docs/configuration.md`."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from ingle.daemon.settings.config import (
    Config,
    ConfigError,
    load_config,
    setting_names,
    variable_name,
)
from ingle.daemon.settings.setting_parsers import (
    PARSERS,
    InvalidSetting,
    parse_duration,
    parse_size,
)

pytestmark = pytest.mark.quick

PAGE = Path(__file__).parents[3] / "docs/configuration.md"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a temporary home and a config folder."""
    (tmp_path / "config").mkdir()
    return {"INGLE_HOME": str(tmp_path)}


def write_config(home: dict[str, str], text: str) -> Path:
    file = Path(home["INGLE_HOME"]) / "config/config.toml"
    file.write_text(text, "utf-8")
    return file


def test_defaults_without_a_file(home: dict[str, str]) -> None:
    config = load_config(home)
    assert config == Config(paths=config.paths)
    assert config.socket == config.paths.socket
    assert (config.host, config.port, config.keep_alive) == ("127.0.0.1", 4645, 900.0)


def test_flag_overrides_variable_overrides_file(home: dict[str, str]) -> None:
    write_config(home, 'port = 1\nslots = 2\nlog_level = "debug"\n')
    assert load_config(home).port == 1
    assert load_config(home | {"INGLE_PORT": "2"}).port == 2
    config = load_config(home | {"INGLE_PORT": "2"}, {"port": "3", "log_level": None})
    assert (config.port, config.slots, config.log_level) == (3, 2, "debug")


def test_values_of_every_type_in_the_file(home: dict[str, str]) -> None:
    write_config(
        home,
        'keep_alive = "1h30m"\nmax_body_bytes = "2MiB"\nshutdown_grace = 2.5\n'
        'allowed_origins = ["http://LOCALHOST:3000", "app://notes", "vscode-webview://*"]\n'
        'host = "localhost"\n'
        'socket = "/run/x.sock"\nmodel_folders = ["/models", "~/gguf"]\n',
    )
    config = load_config(home)
    assert config.keep_alive == 5400.0
    assert config.max_body_bytes == 2 * 2**20
    assert config.shutdown_grace == 2.5
    assert config.allowed_origins == (
        *("http://localhost:3000", "app://notes"),
        "vscode-webview://*",
    )
    assert config.host == "127.0.0.1"
    assert config.socket == Path("/run/x.sock")
    assert config.model_folders == (Path("/models"), Path("~/gguf").expanduser())


def test_environment_variables_are_parsed(home: dict[str, str]) -> None:
    config = load_config(
        home
        | {
            "INGLE_KEEP_ALIVE": "forever",
            "INGLE_GPU_LAYERS": "-1",
            "INGLE_MODEL_FOLDERS": "/a:/b",
            "INGLE_ALLOWED_ORIGINS": "http://a:1, http://b:2",
            "INGLE_MAX_BODY_BYTES": "4096",
        }
    )
    assert config.keep_alive == -1.0
    assert config.gpu_layers == -1
    assert config.allowed_origins == ("http://a:1", "http://b:2")
    assert config.max_body_bytes == 4096


def test_unknown_key_is_refused_with_a_suggestion(home: dict[str, str]) -> None:
    file = write_config(home, "prot = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(home)
    assert caught.value.message == f"'prot' in {file} is not a setting of ingle."
    assert caught.value.hint == "Did you mean 'port'?"


def test_paths_is_not_a_setting(home: dict[str, str]) -> None:
    write_config(home, 'paths = "/x"\n')
    with pytest.raises(ConfigError, match="'paths'"):
        load_config(home)


def test_unknown_variable_is_refused(home: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="INGLE_PROT") as caught:
        load_config(home | {"INGLE_PROT": "1"})
    assert caught.value.hint == "Did you mean 'INGLE_PORT'?"


def test_unrelated_variables_are_ignored(home: dict[str, str]) -> None:
    environment = home | {"INGLE_TEST_MODEL": "x", "PORT": "1", "ingle_port": "1"}
    assert load_config(environment).port == 4645


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("No", False), ("1", True), (" FALSE ", False)]
)
def test_boolean_environment_variables(home: dict[str, str], text: str, value: bool) -> None:
    assert load_config(home | {"INGLE_MLOCK": text}).mlock is value


def test_choices_ignore_case(home: dict[str, str]) -> None:
    config = load_config(home | {"INGLE_KV_TYPE": "Q8_0", "INGLE_FLASH_ATTENTION": "ON"})
    assert (config.kv_type, config.flash_attention) == ("q8_0", "on")


def test_shares_of_gpus_are_numbers(home: dict[str, str]) -> None:
    assert load_config(home | {"INGLE_TENSOR_SPLIT": "3, 1.5"}).tensor_split == (3.0, 1.5)


def test_unknown_override_is_refused(home: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="'sloths'"):
        load_config(home, {"sloths": 1})


@pytest.mark.parametrize(
    "line",
    [
        'port = "4645"',
        "port = true",
        "port = 65536",
        "port = -2",
        "port = 1.0",
        "slots = 0",
        "context = -1",
        "threads = -1",
        "gpu_layers = -2",
        "tensor_parallel = 9",
        "tensor_split = [1, -1]",
        "tensor_split = 2",
        'kv_type = "q2_k"',
        "kv_type = 8",
        'flash_attention = "maybe"',
        "flash_attention = true",
        'mmap = "true"',
        "mlock = 1",
        "keep_alive = -2",
        "keep_alive = nan",
        "keep_alive = inf",
        "keep_alive = true",
        'keep_alive = "15 minutes"',
        "shutdown_grace = -1",
        'shutdown_grace = "forever"',
        "max_body_bytes = 10",
        'max_body_bytes = "much"',
        "default_model = 1",
        'default_model = " "',
        'socket = "relative.sock"',
        f'socket = "/{"x" * 104}"',
        'model_folders = "/models"',
        'model_folders = ["models"]',
        "model_folders = [1]",
        'host = "gpu.lan"',
        'host = "192.168.1.300"',
        'allowed_hosts = ["*.lan"]',
        'allowed_hosts = ["gpu.lan:4645"]',
        'tls_cert = "cert.pem"',
        'key_rate = "60"',
        "max_connections = 0",
        "host = 1",
        'log_level = "loud"',
        'allowed_origins = "http://a"',
        'allowed_origins = ["*"]',
        'allowed_origins = ["http://*"]',
        'allowed_origins = ["https://*"]',
        'allowed_origins = ["app://*.md"]',
        'allowed_origins = ["http://a/path"]',
        'allowed_origins = ["localhost:3000"]',
        "allowed_origins = [1]",
        "aliases = 1",
        "aliases = { a = 1 }",
        'aliases = { "" = "b" }',
        'aliases = { a = " " }',
        'aliases = { a = "b*" }',
        'aliases = { gpt-4.1 = "b" }',
        'aliases = { a = "b", b = "A:latest" }',
        'aliases = { a = "a" }',
        "unknown_model = 1",
        "max_context = -1",
        "max_tokens = -1",
        'max_keep_alive = "long"',
    ],
)
def test_invalid_value_is_refused_and_named(home: dict[str, str], line: str) -> None:
    file = write_config(home, line)
    name = line.split(" ")[0]
    with pytest.raises(ConfigError) as caught:
        load_config(home)
    assert caught.value.message.startswith(f"'{name}' in {file} must be ")
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize("text", ["", "x", "4.5", "0x10", "99999", "1_000", "٣٣"])
def test_invalid_variable_is_refused(home: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match="INGLE_PORT must be a whole number"):
        load_config(home | {"INGLE_PORT": text})


def test_invalid_flag_is_named_as_typed(home: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^--log-level must be one of debug"):
        load_config(home, {"log_level": "loud"})


def test_socket_flag_is_relative_to_the_working_directory(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert load_config(home, {"socket": "s.sock"}).socket == Path("/s.sock")


@pytest.mark.parametrize("content", [b"port 1", b"port = 1\nport = 2", b"\xff\xfe", b"= 1"])
def test_invalid_toml_is_refused(home: dict[str, str], content: bytes) -> None:
    file = write_config(home, "")
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(home)
    assert str(file) in caught.value.message
    assert caught.value.hint is not None


def test_unreadable_file_is_refused(home: dict[str, str]) -> None:
    (Path(home["INGLE_HOME"]) / "config/config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(home)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("15m", 900.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("2d", 172800.0),
        ("250ms", 0.25),
        (" 10S ", 10.0),
        ("-1", -1.0),
        ("Forever", -1.0),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert math.isclose(parse_duration(text), seconds)


@pytest.mark.parametrize("text", ["", "m", "1x", "1 h", "-5", "-1m", "1h 30m", "1e3", "h1", "1.h"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("64MiB", 2**26), ("10 mb", 10**7), ("1.5GiB", 3 * 2**29)]
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "MiB", "1 XB", "1.5"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_size(text)


def test_aliases_from_file_and_variable(home: dict[str, str]) -> None:
    write_config(home, '[aliases]\n"gpt-4o" = "smollm2"\n"claude-*" = "coder"\ncoder = "qwen"\n')
    assert load_config(home).aliases == (
        ("gpt-4o", "smollm2"),
        ("claude-*", "coder"),
        ("coder", "qwen"),
    )
    variables = {"INGLE_ALIASES": " gpt-4o = smollm2, claude-*=smollm2:135m ,"}
    assert load_config(home | variables).aliases == (
        ("gpt-4o", "smollm2"),
        ("claude-*", "smollm2:135m"),
    )
    with pytest.raises(ConfigError, match="INGLE_ALIASES must be pairs such as"):
        load_config(home | {"INGLE_ALIASES": "gpt-4o"})


def test_alias_cycle_is_shown_in_the_hint(home: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(home | {"INGLE_ALIASES": "x=a,a=b,b=c,c=a"})
    assert caught.value.hint == "a → b → c → a is a cycle."


def test_every_setting_has_a_parser() -> None:
    assert set(PARSERS) == set(setting_names())


def test_defaults_pass_their_own_parsers(tmp_path: Path) -> None:
    config = load_config({"INGLE_HOME": str(tmp_path)})
    for name in setting_names():
        value = getattr(config, name)
        assert PARSERS[name](value, False) == value


def _documented() -> dict[str, tuple[str, str, str]]:
    """Map each setting to (default, variable, flag) as listed in the page's table."""
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if re.match(r"\| `[a-z_]+` \|", line)
    ]
    assert all(len(row) == 5 and row[4] for row in rows)
    return {name: (default, variable, flag) for name, default, variable, flag, _ in rows}


def test_documentation_lists_every_setting_once() -> None:
    assert list(_documented()) == setting_names()


def test_documented_defaults_and_variables_are_correct() -> None:
    defaults = {f.name: f.default for f in dataclasses.fields(Config)}
    for name, (default, variable, _) in _documented().items():
        assert variable == variable_name(name)
        if name == "socket":
            continue  # depends on the home, as the page explains
        value = defaults[name]
        empty = "{}" if name in ("aliases", "keep_alives", "agent_diets") else "[]"
        written = empty if value == () else json.dumps(value)  # in TOML notation
        assert default == written


def test_documented_flags_match_serve() -> None:
    from ingle.daemon.cli.server.serve import FLAGS

    documented = {name: flag for name, (_, _, flag) in _documented().items() if flag}
    assert documented == {name: "--" + name.replace("_", "-") for name in FLAGS}
