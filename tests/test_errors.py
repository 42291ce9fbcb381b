"""One exception tree, and optional packages asked for by name."""

import math

import pytest

from pencil.errors import (
    ConfigError,
    DataError,
    FlipWarning,
    MissingExtraError,
    PencilError,
    RunError,
    did_you_mean,
    need,
)


def test_need_returns_the_module_that_is_there():
    assert need("math", extra="none", purpose="count") is math


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inner"])
def test_need_says_how_to_install_what_is_missing(module):
    with pytest.raises(MissingExtraError) as caught:
        need(module, extra="tables", purpose="write Parquet")
    message = str(caught.value)
    assert message.startswith("no_such_package is needed to write Parquet")
    assert "pip install 'pencil-labels[tables]'" in message
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("error", [ConfigError, DataError, RunError, MissingExtraError])
def test_everything_a_user_can_mend_is_one_kind_of_error(error):
    assert issubclass(error, PencilError)


def test_a_flip_certificate_is_a_warning():
    assert issubclass(FlipWarning, UserWarning)


def test_did_you_mean_says_nothing_when_nothing_is_near():
    assert did_you_mean("cifar", ["cifar10", "mnist"]) == "; did you mean 'cifar10'?"
    assert did_you_mean("zzz", ["cifar10", "mnist"]) == ""
