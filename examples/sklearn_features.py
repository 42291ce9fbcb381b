"""PENCIL as a scikit-learn estimator: in a pipeline, then for the labels themselves.

    python examples/sklearn_features.py

Two thousand points in ten clusters, 40 % of whose labels are wrong. Prints test accuracy beside that of logistic
regression, how many labels are right before and after, and what is to be done about them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pencil import PencilClassifier

Array = NDArray[Any]


def noisy_clusters(count: int = 2000, classes: int = 10, rate: float = 0.4) -> tuple[Array, Array, Array]:
    """Points (N, 16) around one centre per class, their noisy and their true labels (N,)."""
    rng = np.random.default_rng(0)
    names = np.array([f"kind {number}" for number in range(classes)])
    true = rng.integers(classes, size=count)
    points = rng.normal(size=(classes, 16))[true] + rng.normal(size=(count, 16))
    noisy = np.where(rng.random(count) < rate, rng.integers(classes, size=count), true)
    return points, names[noisy], names[true]


def main() -> tuple[float, float]:
    """Train; the test accuracy of logistic regression and of PENCIL."""
    points, noisy, true = noisy_clusters()
    train, test = slice(0, 1500), slice(1500, None)
    classifier = PencilClassifier(random_state=0)
    pipeline = make_pipeline(StandardScaler(), classifier)
    pipeline.fit(points[train], noisy[train])
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
        points[train], noisy[train]
    )

    accuracies = plain.score(points[test], true[test]), pipeline.score(points[test], true[test])
    print("test accuracy: {:.1%} by logistic regression, {:.1%} by PENCIL".format(*accuracies))
    before, after = (
        (labels == true[train]).mean() for labels in (noisy[train], classifier.corrected_labels_)
    )
    print(f"right labels: {before:.1%} before, {after:.1%} after")
    print("verdicts:", dict(Counter(classifier.verdicts_.tolist())))
    return accuracies


if __name__ == "__main__":
    main()
