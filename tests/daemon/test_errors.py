"""Every error has a status, a code and a hint, in the native and the OpenAI format."""

from __future__ import annotations

import errno
import inspect
import logging
import os
from typing import Any

import pytest

from ingle.backends.base import errors as backends
from ingle.daemon import error_status, errors
from ingle.models import errors as models
from ingle.models.model_task import ModelTask

ERROR_CLASSES: list[Any] = [
    kind
    for module in (models, backends, errors)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, (models.ModelError, backends.BackendError, errors.RequestError))
]


def make(kind: Any) -> Exception:
    if kind is backends.ContextExceeded:
        return backends.ContextExceeded(100, 50)
    if kind is backends.UnsupportedSampling:
        return backends.UnsupportedSampling(["mirostat"])
    if kind is backends.InputTooLong:
        return backends.InputTooLong("It", 100, 50, param="input")
    if kind is backends.WrongTask:
        return backends.WrongTask(ModelTask.EMBED, ModelTask.GENERATE, name="m")
    return kind("It went wrong.", hint="Try again.")


@pytest.mark.parametrize("kind", ERROR_CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_code_and_both_formats(kind: Any) -> None:
    error = make(kind)
    problem = error_status.describe(error)
    assert 400 <= problem.status < 600
    assert problem.code == getattr(error, "code", None)
    native, openai = problem.native().error, problem.openai().error
    assert native.message == str(error)
    assert native.hint
    assert openai.message == f"{native.message} {native.hint}"
    assert openai.code == native.code
    fault = "invalid_request_error" if problem.status < 500 else "server_error"
    assert openai.type == ("rate_limit_error" if problem.status == 429 else fault)


@pytest.mark.parametrize(
    ("error", "status", "param"),
    [
        (models.ModelNotFound("x"), 404, "model"),
        (models.InvalidModel("x"), 422, None),
        (models.DiskFull("x"), 507, None),
        (models.DiskUnusable("x"), 507, None),
        (models.SourceUnavailable("x"), 502, None),
        (backends.ContextExceeded(100, 50), 400, "messages"),
        (backends.InputTooLong("It", 100, 50, param="input"), 400, "input"),
        (backends.WrongTask(ModelTask.EMBED, ModelTask.GENERATE), 400, "model"),
        (backends.RequestRejected("x", param="stop"), 400, "stop"),
        (backends.OutOfMemory("x"), 507, None),
        (backends.FileRejected("x"), 422, None),
        (backends.LoadFailed("x"), 500, None),
        (backends.WorkerDied("x"), 503, None),
        (errors.InvalidBody("x", param="n"), 400, "n"),
    ],
)
def test_status_and_param_of_errors(error: Exception, status: int, param: str | None) -> None:
    problem = error_status.describe(error)
    assert (problem.status, problem.param) == (status, param)


@pytest.mark.parametrize("number", error_status.DISK_FAULTS)
def test_fault_of_the_disk_is_named_but_not_its_file(
    caplog: pytest.LogCaptureFixture, number: int
) -> None:
    problem = error_status.describe(OSError(number, os.strerror(number), "/a/file"))
    assert (problem.status, problem.code) == (507, "storage_unusable")
    assert os.strerror(number) in problem.sentence
    assert "/a/file" not in problem.sentence
    assert "/a/file" in caplog.text
    assert error_status.describe(OSError(errno.EPIPE, "x")).code == "internal_error"


def test_unexpected_error_is_logged_but_not_exposed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "ingle.daemon"):
        problem = error_status.describe(ValueError("the inside"))
    assert (problem.status, problem.code) == (500, "internal_error")
    assert "the inside" not in problem.openai().error.message
    assert "the inside" in caplog.text
