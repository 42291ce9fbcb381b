"""One exception tree."""

import pytest

from pencil.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    PencilError,
    PlanWarning,
    RunError,
    did_you_mean,
)


@pytest.mark.parametrize("error", [ConfigError, DataError, RunError, MissingExtraError])
def test_everything_a_user_can_fix_is_one_kind_of_error(error):
    assert issubclass(error, PencilError)


def test_a_flip_certificate_is_a_warning():
    assert issubclass(PlanWarning, UserWarning)


def test_did_you_mean_says_nothing_when_nothing_is_near():
    assert did_you_mean("cifar", ["cifar10", "mnist"]) == "; did you mean 'cifar10'?"
    assert did_you_mean("zzz", ["cifar10", "mnist"]) == ""
