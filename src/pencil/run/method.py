"""The method of a run: loaded, given what it asks for, and checked against the network."""

from __future__ import annotations

from pencil.config import RunConfig
from pencil.data import Examples
from pencil.errors import ConfigError
from pencil.imports import users_code
from pencil.methods import Method
from pencil.models import PAIR
from pencil.run.noise import noise_matrix


def load_method(config: RunConfig) -> Method:
    """The method as configured; a failure in the user's own code becomes a message that names it."""
    with users_code("method.name", config.method.name):
        return config.load_method()


def build_method(config: RunConfig, train: Examples) -> Method:
    """The method as configured, with the matrix of the run's own noise where it wants that."""
    method, noise = load_method(config), config.data.noise
    if not method.wants_noise:
        return method
    try:
        return method.with_noise(None if noise is None else noise_matrix(noise, train))
    except ValueError as error:
        raise ConfigError(f"method.{error}") from error


def check_networks(config: RunConfig) -> None:
    """A method of two networks needs a pair of them, and a pair needs such a method."""
    two, pair = load_method(config).networks == 2, config.model.name == PAIR
    if two and not pair:
        raise ConfigError(
            f"model.name = {config.model.name!r}: method {config.method.name} trains two networks; "
            f"--set model.name=pair --set model.args.name={config.model.name}"
        )
    if pair and not two:
        raise ConfigError(
            f"model.name = 'pair': method {config.method.name} trains one network; name that one"
        )
