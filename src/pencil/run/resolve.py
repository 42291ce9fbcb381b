"""Resolve settings that depend on the machine or the time, once, when a run begins.

    store = "auto"       depends on the main rank's free memory
    data.trusted.entry   the newest entry of the review; run_id and digest identify what is read
    start.run_id         the id of the earlier run
    data.encoding        how columns of a table become features, which depends on the training rows

The resolved settings are stored with the run and used whenever it continues.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from statistics import median

import torch

from pencil.config import RunConfig
from pencil.data import Examples, Inputs
from pencil.data.checking import Progress
from pencil.data.extents import SIZES, sampled_extents, typical_side
from pencil.data.implausible import check_plausible
from pencil.engine import Runtime
from pencil.identity import run_id
from pencil.kinds import DataSection, TrustedLabels, kind_of
from pencil.run.method import load_method
from pencil.run.sources import Prepared, prepare_examples, resolve_data, warn_of_few_rows
from pencil.run.trusted import is_run, newest_entry, resolved_trusted
from pencil.stores import USUAL_K, choose_store, free_memory

SHRUNK = 2  # times the size, from which images are shrunk with a warning


def resolve(
    config: RunConfig, runtime: Runtime, progress: Progress = lambda *_: None
) -> tuple[RunConfig, Prepared]:
    """Return the resolved settings and the examples, whose number determines the store.

    Args:
        config: The settings.
        runtime: The ranks; the main rank decides for all.
        progress: Called with the rows checked so far and all rows, see ``prepare_examples``.
    """
    config = _with_identities(config, runtime)
    config = config.model_copy(update={"data": resolve_data(config.data)})
    prepared = prepare_examples(config.data, config.seed, progress)
    check_plausible(prepared.train, config.data.path)
    if runtime.is_main:
        report_shrinking(config.data, prepared.train.inputs)
        warn_of_few_rows(prepared.train, config.data.path)
    return _with_store(config, prepared.train, runtime), prepared


def report_shrinking(data: DataSection, inputs: Inputs) -> None:
    """Warn if images lose most of their pixels to a size that is meant for training from scratch."""
    size = getattr(data, "size", None)
    if size is None or size > SIZES[-1] or data.embed is not None:
        return
    extents = sampled_extents(inputs)
    if extents and typical_side(extents) >= SHRUNK * size:
        width, height = (round(median(sides)) for sides in zip(*extents, strict=True))
        warnings.warn(
            f"{data.path}: images of about {width} × {height} pixels are shrunk to {size} × {size}; a pretrained "
            "network uses more of them: --embed MODEL",
            stacklevel=3,
        )


def resolves_to(config: RunConfig, kept: RunConfig) -> bool:
    """Whether ``kept`` is a possible result of ``resolve(config)``, on any machine at any time."""
    if config.store == "auto":
        config = config.model_copy(update={"store": kept.store})
    trusted, used = config.data.trusted, kept.data.trusted
    if trusted is not None and trusted.entry is None and used is not None:
        config = _with_trusted(
            config, trusted.model_copy(update=used.model_dump(include={"entry", "run_id", "digest"}))
        )
    if config.start.run is not None and config.start.run_id is None:
        config = _with_start(config, kept.start.run_id)
    known = {name: getattr(kept.data, name, None) for name in kind_of(config.data).resolved}
    config = config.model_copy(update={"data": config.data.model_copy(update=known)})
    return kept == config


def _with_identities(config: RunConfig, runtime: Runtime) -> RunConfig:
    trusted, run = config.data.trusted, config.start.run
    if run is not None and config.start.run_id is None:
        config = _with_start(config, run_id(Path(run).expanduser()))
    if trusted is None or trusted.entry is not None or not is_run(trusted):
        return config
    entry = int(_from_main(newest_entry(trusted) if runtime.is_main else 0, runtime))
    return _with_trusted(config, resolved_trusted(trusted, entry))


def _with_trusted(config: RunConfig, trusted: TrustedLabels) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"trusted": trusted})})


def _with_start(config: RunConfig, owner: str | None) -> RunConfig:
    return config.model_copy(update={"start": config.start.model_copy(update={"run_id": owner})})


def _with_store(config: RunConfig, train: Examples, runtime: Runtime) -> RunConfig:
    if config.store != "auto":
        return config
    method = load_method(config)
    choice = choose_store(
        -(-len(train) // runtime.world_size),
        method.row_width(train.num_classes),
        can_cut=method.cut(USUAL_K) is not None,
        memory=int(_from_main(free_memory() if runtime.is_main else 0, runtime)),
    )
    return config.model_copy(update={"store": str(choice)})


def _from_main(value: int, runtime: Runtime) -> float:
    """Return the main rank's number on all ranks; the other ranks pass 0."""
    return float(runtime.total(torch.tensor([float(value)], dtype=torch.float64))[0])
