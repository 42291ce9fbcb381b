"""Settings of a run that continues a finished one: new rows join, or the pretrained network learns too."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

from pencil.config import RunConfig
from pencil.configure.settings import data_section, pairs_of
from pencil.embed.finetune import NAME as FINETUNED
from pencil.embed.finetune import pixels_of, trainable_encoder
from pencil.errors import ConfigError
from pencil.kinds import DataSection, kind_of
from pencil.run import RunDirectory, has_decisions

FIRST = (
    "it needs a run on features: pencil train DATA --embed MODEL --out RUN, then --from RUN --finetune last"
)
OF_ROWS = ("noise", "limit", "per_class")
"""Settings of the data that depend on which rows there are, besides the files of labels of its kind."""
JOINED_SHARE, JOINED_LEAST = 0.3, 5
"""The share of a phase's epochs that is enough where most labels and the network are known, and the least epochs."""
FEW_NEW, FEW_EPOCHS = 0.05, {"correction": 2, "finetune": 1}
"""If fewer rows than this share are new and labels start from prototypes, these epochs are enough."""
FINETUNE_RATE, FINETUNE_EPOCHS = 0.002, 3
"""A tenth of the rate of a head on features; a pretrained network needs few epochs."""


def continued(
    data: str | None,
    start: Path | None,
    finetune: str | None,
    settings: tuple[str, ...] = (),
    trusted: str | None = None,
    on_error: str | None = None,
    **others: object,
) -> dict[str, Any] | None:
    """The settings that follow from ``--from`` and ``--finetune``; None without them.

    Args:
        data: The path of the data; that of the earlier run by default.
        start: The earlier run.
        finetune: Which layers of its pretrained network learn too.
        settings: Those of --set, which may say how the data is read.
        trusted: Verified labels, which would replace those of the earlier run.
        on_error: What to do with rows that cannot be read; as the earlier run did by default.
        others: Options that cannot be combined with these, by name.
    """
    if start is None and finetune is None:
        return None
    if start is None:
        raise ConfigError(f"--finetune {finetune}: {FIRST}")
    for name, value in others.items():
        if value is not None:
            raise ConfigError(
                f"--from and --{name} cannot be combined; the settings are those of the earlier run"
            )
    if trusted is not None and has_decisions(start):
        raise ConfigError(
            f"--from and --trusted {trusted} cannot be combined: {start} has verified labels, which would be "
            "lost; decide the other rows in it (pencil review), or write all of them into one table for a new run"
        )
    if on_error is not None:
        settings = (f"data.on_error={on_error}", *settings)
    table = _joined_table(data, start, settings)
    if finetune is not None:
        _set_finetune(table, finetune)
    return table


def _joined_table(data: str | None, start: Path, settings: tuple[str, ...]) -> dict[str, Any]:
    """The settings of a finished run for data that has grown: its decisions stay, and fewer epochs are enough."""
    directory = RunDirectory.open(start)
    config = directory.config.model_copy(update={"data": directory.data})
    table = config.table()
    section = _joined_section(data or config.data.path, config, settings)
    table["data"] = section.model_dump(mode="json", exclude_none=True)
    if has_decisions(start):
        table["data"]["trusted"] = {"path": str(start)}
    table["start"] = {**table["start"], "run": str(start), "run_id": None}
    few = FEW_EPOCHS if _has_few_new_rows(section, directory) else {}
    for phase in table["phases"]:
        warm = phase["name"] == "backbone" and len(table["phases"]) > 1
        enough = min(_joined_epochs(phase["epochs"]), few.get(phase["name"], phase["epochs"]))
        phase["epochs"] = 0 if warm else enough
    return table


def _joined_section(path: str, config: RunConfig, settings: tuple[str, ...]) -> DataSection:
    """The data of the earlier run at a path; what belongs to its rows stays only if the path is the same."""
    before, own = config.table()["data"], kind_of(config.data).own
    rows = {name: before[name] for name in (*OF_ROWS, *own) if before.get(name) is not None}
    same = _place(path) == _place(config.data.path)
    if rows and not same:
        warnings.warn(
            f"{path} is not the data of the earlier run, so these settings of that run are left out: {', '.join(rows)}",
            stacklevel=4,
        )
    kept = {"validation": before["validation"], **(rows if same else {})}
    asked = [each for each in pairs_of(settings) if each[0].startswith("data.")]
    return data_section(
        path, (*((f"data.{name}", value) for name, value in kept.items()), *asked), like=config
    )


def _place(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _has_few_new_rows(section: DataSection, earlier: RunDirectory) -> bool:
    """Whether the data has few rows more than the earlier run, whose labels start from prototypes."""
    kind = kind_of(section)
    if kind.is_code or not earlier.is_finished or earlier.config.start.labels != "prototypes":
        return False
    rows = len(kind.read(section, Path(section.path).expanduser()).train) * (1 - section.validation)
    return 0 <= rows - int(earlier.summary["examples"]) < FEW_NEW * rows


def _set_finetune(table: dict[str, Any], layers: str) -> None:
    """Train the pretrained network itself, after its head, with the labels as they are corrected."""
    data, encoder, model = table["data"], table["data"].pop("embed", None), table["model"]
    if encoder is None:
        raise ConfigError(f"--finetune {layers}: {FIRST}")
    side = pixels_of(trainable_encoder(encoder)).side
    data |= {"size": side, "normalize": "none", "augment": {"pad": side // 16, "crop": side, "flip": True}}
    args = {"encoder": encoder, "layers": layers, "head": model["name"], "head_args": model["args"]}
    table["model"] = {"name": FINETUNED, "args": args}
    rate = {"kind": "cosine", "start": FINETUNE_RATE, "end": 0.0}
    table["phases"] = [{"name": "finetune", "epochs": FINETUNE_EPOCHS, "learning_rate": rate}]
    table["start"]["labels"] = (
        "given"  # labels are fixed in this phase: nothing would use those of prototypes
    )
    table["train"] |= {"batch_size": 32, "channels_last": True, "precision": "auto"}


def _joined_epochs(epochs: int) -> int:
    """With too few epochs no label could flip."""
    return min(epochs, max(JOINED_LEAST, math.ceil(JOINED_SHARE * epochs)))
