"""A finished run on points in clusters, to hand over."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def run(points, tmp_path_factory):
    """A finished run on the points, whose rows have names."""
    from pencil.presets import preset
    from pencil.run import train

    folder = tmp_path_factory.mktemp("handover")
    names, numbers = np.unique(points.noisy, return_inverse=True)
    ids = np.array([f"images/ż {number}.png" for number in range(len(numbers))])
    np.savez(folder / "points.npz", X=points.values, y=numbers, names=names, ids=ids)
    config = preset("features", str(folder / "points.npz"))
    return train(
        config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 20})}),
        folder / "run",
    )


@pytest.fixture(scope="session")
def rows(run):
    """What the run believes, one by one."""
    from pencil.results import label_rows
    from pencil.run import judged_labels

    return list(label_rows(*judged_labels(run)))
