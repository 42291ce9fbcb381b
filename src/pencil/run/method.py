"""The method of a run: load it, pass it the noise it requires, and check it against the network."""

from __future__ import annotations

from pencil.config import RunConfig
from pencil.data import Examples
from pencil.errors import ConfigError
from pencil.imports import users_code
from pencil.methods import Method
from pencil.models import PAIR
from pencil.run.noise import noise_matrix


def load_method(config: RunConfig) -> Method:
    """Load the configured method; errors in the user's own code become a ``ConfigError`` that names it."""
    with users_code("method.name", config.method.name):
        return config.load_method()


def build_method(config: RunConfig, train: Examples) -> Method:
    """Build the configured method, with the transition matrix of the run's noise if it requires one."""
    method, noise = load_method(config), config.data.noise
    if not method.wants_noise:
        return method
    try:
        return method.with_noise(None if noise is None else noise_matrix(noise, train))
    except ValueError as error:
        raise ConfigError(f"method.{error}") from error


def check_networks(config: RunConfig) -> None:
    """Check that a method of two networks is used with a pair of networks, and no other method."""
    two, pair = load_method(config).networks == 2, config.model.name == PAIR
    if two and not pair:
        raise ConfigError(
            f"model.name = {config.model.name!r}: method {config.method.name} trains two networks; "
            f"use --set model.name=pair --set model.args.name={config.model.name}"
        )
    if pair and not two:
        raise ConfigError(
            f"model.name = 'pair': method {config.method.name} trains one network; name a single network"
        )
