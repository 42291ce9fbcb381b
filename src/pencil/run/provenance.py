"""What a file of labels was made from: ``NAME.source.json`` beside it names run, belief and entry of the review."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pencil.durable import write_text
from pencil.identity import run_id, seal_of, sealed_json
from pencil.results import POSTERIOR, last_entry, was_reviewed
from pencil.results.estimates import ESTIMATES
from pencil.run.directory import RunDirectory

SUFFIX = ".source.json"


def source_of(directory: RunDirectory) -> dict[str, Any]:
    """What labels of a run are made from now: the run, a digest of its probabilities, and the review's last entry."""
    folder = directory.path
    return {
        "run": run_id(folder),
        "belief": belief_digest(folder),
        "entry": last_entry(folder) if was_reviewed(folder) else None,
    }


def belief_digest(folder: Path) -> str:
    """A digest of a run's probabilities, from the seals of their files; of one without seals, from its estimates."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (folder / ESTIMATES, *sorted((folder / POSTERIOR).glob("*.safetensors"))):
        seal = seal_of(part) if part.is_file() else None
        small = part.is_file() and part.suffix == ".json"
        digest.update(seal.checksum.encode() if seal is not None else part.read_bytes() if small else b"")
    return digest.hexdigest()


def write_source(file: Path, source: dict[str, Any]) -> None:
    """Write what a file was made from beside it, with a checksum of the file."""
    with file.open("rb") as opened:
        checksum = hashlib.file_digest(opened, "sha256").hexdigest()
    values = {"file": file.name, "sha256": checksum, **source}
    write_text(file.with_name(file.name + SUFFIX), sealed_json(values, str(source["run"]), indent=1))
