"""Scores of ``answers``: what a method says about each given label being wrong, highest first.

``cleanlab`` is the self-confidence of cleanlab with out-of-fold probabilities of a logistic regression, 5 folds, on
standardised features. Its strength of regularisation is the one of the smallest out-of-fold log loss of given labels at
symmetric 40 %, seed 100. The other methods are trained with the settings that the comparison chose for them
(docs/comparison.md), on all rows: a method that learns labels scores 1 - (its label's probability of the given class),
one that learns none 1 - (its network's probability). ``mean_margin`` is the mean over the epochs of a training with
cross entropy of log p(given) - log p(best other), negated.
"""

from __future__ import annotations

import numpy as np
import torch
from answers_grid import Problem, method_config
from torch import Tensor

from pencil.data import Splits
from pencil.engine import Event, Listener, Loop, Runtime, Training, predictions
from pencil.imports import need
from pencil.run.build import build_training
from pencil.run.sources import Prepared

FOLDS = 5
STRENGTH = {"cub": 0.003, "cifar10": 0.003, "cifar100": 0.01}  # C of scikit-learn's LogisticRegression
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1)
TRAINED = (
    "pencil",
    "cross_entropy",
    "early_learning",
    "sparse_over_parametrization",
    "joint_optimization",
    "generalized_cross_entropy",
)


def cleanlab_score(problem: Problem) -> Tensor:
    """(N,) 1 - cleanlab's self-confidence of each given label."""
    rank = need("cleanlab.rank", extra="benchmark", purpose="score labels by confident learning")
    probs = out_of_fold(
        problem.features, problem.given, problem.num_classes, problem.seed, STRENGTH[problem.data]
    )
    quality = rank.get_label_quality_scores(
        problem.given.numpy(), probs.double().numpy(), method="self_confidence"
    )
    return 1 - torch.from_numpy(np.asarray(quality))


def out_of_fold(features: Tensor, given: Tensor, num_classes: int, seed: int, strength: float) -> Tensor:
    """Probabilities (N, C) of each row by a logistic regression that has not seen it."""
    linear = need("sklearn.linear_model", extra="sklearn", purpose="fit logistic regressions")
    spread = features.std(0)
    values = ((features - features.mean(0)) / torch.where(spread > 0, spread, 1.0)).numpy()
    fold = torch.randperm(len(given), generator=torch.Generator().manual_seed(seed)).remainder(FOLDS)
    probs = torch.zeros(len(given), num_classes)
    for number in range(FOLDS):
        seen = (fold != number).numpy()
        model = linear.LogisticRegression(C=strength, max_iter=200, tol=1e-3)
        model.fit(values[seen], given.numpy()[seen])
        out = torch.from_numpy(model.predict_proba(values[~seen])).float()
        probs[(fold == number).nonzero(), torch.from_numpy(model.classes_)] = out
    return probs


def best_strength(problem: Problem) -> dict[float, float]:
    """The out-of-fold log loss of the given labels for each strength of regularisation."""
    losses = {}
    for strength in STRENGTHS:
        probs = out_of_fold(problem.features, problem.given, problem.num_classes, problem.seed, strength)
        losses[strength] = float(-probs.gather(1, problem.given[:, None]).clamp_min(1e-9).log().mean())
    return losses


def trained_scores(problem: Problem, method: str) -> dict[str, Tensor]:
    """Scores (N,) of a training, by name: the method's own, and with cross entropy the mean margin."""
    training, margins = trained(problem, method)
    place = training.indices.argsort()
    if training.learner.method.learns_labels:
        belief = training.learner.label_distribution(place).cpu()
    else:
        belief = margins.probabilities()[place]
    scores = {method: 1 - belief.gather(1, problem.given[:, None])[:, 0]}
    if method == "cross_entropy":
        scores["mean_margin"] = -margins.mean()[place]
    return scores


def trained(problem: Problem, method: str) -> tuple[Training, Margins]:
    """Train in memory with the comparison's settings."""
    config = method_config(problem.data, method, problem.seed).model_copy(update={"store": "dense"})
    examples = problem.examples
    with torch.random.fork_rng(devices=[]):
        training = build_training(
            config, Prepared(examples, None, None, Splits(examples)), None, Runtime.alone("cpu")
        )
        margins = Margins(training)
        training.events.listeners = [margins] if method == "cross_entropy" else []
        if not Loop(training).run():
            raise KeyboardInterrupt("the training was stopped by a signal; the same command continues")
    return training, margins


class Margins(Listener):
    """The mean over epochs of the margin of the given label, in the order of the training's rows."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.total = torch.zeros(len(training.train), dtype=torch.float64)
        self.epochs = 0

    def handle(self, event: Event) -> None:
        """Add the margins at the end of an epoch."""
        if event.kind == "epoch":
            logs = self.probabilities().clamp_min(1e-12).log()
            given = self.training.train.labels.hard[:, None]
            own = logs.gather(1, given)[:, 0]
            best = logs.scatter(1, given, -torch.inf).max(dim=1).values
            self.total += (own - best).double()
            self.epochs += 1

    def close(self) -> None:
        """Nothing to close."""

    def mean(self) -> Tensor:
        """(N,) the mean margin."""
        return self.total / max(self.epochs, 1)

    def probabilities(self) -> Tensor:
        """(N, C) of the network as it is."""
        job = self.training
        rows = torch.arange(len(job.train))
        seen = predictions(job.backbone, job.train.inputs, rows, job.preparation, job.runtime)
        return torch.cat([probs for _, probs in seen])
