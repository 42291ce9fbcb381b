"""The Parquet file as the real library reads it."""

import numpy as np
import pytest
import torch

from pencil.algorithm import cut
from pencil.export.datasets import write_parquet
from pencil.results import judge
from pencil.run import judged_labels

pytestmark = pytest.mark.slow

datasets = pytest.importorskip("datasets")


def load(path, cache):
    return datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(cache))


@pytest.mark.parametrize("distribution", [False, True])
def test_the_library_reads_labels_as_class_labels(run, rows, tmp_path, distribution):
    chunks, names = judged_labels(run)
    assert write_parquet(tmp_path / "l.parquet", chunks, names, distribution=distribution) == len(rows)
    table = load(tmp_path / "l.parquet", tmp_path / "cache")
    given, suggested, verdict = (
        table.features[name] for name in ("given_label", "suggested_label", "verdict")
    )
    assert given == suggested == datasets.ClassLabel(names=list(names))
    assert table["id"][:] == [row.id for row in rows]
    assert given.int2str(table["given_label"][:]) == [row.given for row in rows]
    assert suggested.int2str(table["suggested_label"][:]) == [row.suggested for row in rows]
    assert verdict.int2str(table["verdict"][:]) == [row.verdict for row in rows]
    np.testing.assert_allclose(table["confidence"][:], [row.confidence for row in rows], rtol=1e-6)
    assert ("distribution" in table.features) == distribution
    if distribution:
        assert table.features["distribution"].length == len(names)
        whole = torch.cat([chunk.distribution for chunk in judged_labels(run)[0]])
        np.testing.assert_array_equal(np.array(table["distribution"][:], dtype=np.float32), whole.numpy())


def test_several_chunks_and_cut_rows_become_one_table(tmp_path):
    belief = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    chunks = [
        judge(cut(belief[[row]].log(), 2).softmax(), torch.tensor([0]), 0.7, ids=[name], first=row)
        for row, name in enumerate("ab")
    ]
    assert write_parquet(tmp_path / "l.parquet", chunks, ["x", "y", "z"], distribution=True) == 2
    table = load(tmp_path / "l.parquet", tmp_path / "cache")
    np.testing.assert_allclose(np.array(table["distribution"][:]), belief, atol=2e-3)
    assert table["suggested_label"][:] == [0, 2]
