"""The estimator on real features: what ``pencil train`` finds on CUB-200, found by ``fit``."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from pencil.config import RunConfig
from pencil.integrations.sklearn import PencilClassifier
from pencil.presets import preset, start_from
from pencil.run import judged_labels, prepare_examples, train

pytestmark = pytest.mark.slow

FILE = Path(os.environ.get("PENCIL_DATA", "")) / "cub" / "cub200_2011_lite0_224_feat.npz"


@pytest.mark.skipif(not FILE.is_file(), reason="PENCIL_DATA names no folder with CUB-200 features")
def test_cub_features_with_40_percent_noise_end_as_in_a_run_of_the_engine(tmp_path):
    epochs = (2, 8, 2)
    table = preset("features", str(FILE)).table()
    start_from(table, "prototypes")
    table["data"]["noise"] = {"kind": "symmetric", "rate": 0.4}
    table["train"]["evaluate_every"] = sum(epochs)
    for phase, count in zip(table["phases"], epochs, strict=True):
        phase["epochs"] = count
    config = RunConfig.of(table)
    directory = train(config, tmp_path / "run")
    prepared = prepare_examples(config.data, config.seed)
    (inputs, labels), (test_inputs, test_labels) = map(arrays, (prepared.train, prepared.test))
    classifier = PencilClassifier(epochs=epochs, random_state=config.seed).fit(inputs, labels)
    chunks, _ = judged_labels(directory)
    suggested = torch.cat([chunk.distribution.max(dim=1).indices for chunk in chunks]).numpy()
    assert np.array_equal(classifier.corrected_labels_, suggested)
    assert classifier.score(test_inputs, test_labels) == directory.summary["last"]["test_accuracy"]
    right = prepared.train.reference.numpy()
    before, after = ((each == right).mean() for each in (labels, classifier.corrected_labels_))
    assert after > before + 0.05


def arrays(examples):
    return examples.inputs.fetch(torch.arange(len(examples))).numpy(), examples.labels.hard.numpy()
