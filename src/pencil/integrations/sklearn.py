"""PENCIL as a scikit-learn estimator (extra ``sklearn``), trained in memory by the engine's own loop.

    classifier = PencilClassifier(random_state=0).fit(features, noisy_labels)
    classifier.predict(new_features)
    classifier.corrected_labels_, classifier.confidence_, classifier.verdicts_

Legend: N examples, D features, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from pencil.algorithm import Pencil, Schedule, three_phases
from pencil.belief import Belief, Checks
from pencil.config import RunConfig
from pencil.config.schema import Model, Start
from pencil.data import Examples, RowNumbers, Splits
from pencil.engine import Event, Listener, Loop, Runtime, Training, predictions
from pencil.estimates import NoiseEstimate
from pencil.estimates import Start as Fitted
from pencil.imports import need
from pencil.integrations.sklearn_checks import InputError, check_parameters
from pencil.integrations.sklearn_inputs import ArrayInputs, fit_transform, narrowed
from pencil.methods import Method
from pencil.models import PrototypeExpert, WithExpert
from pencil.presets import KNOBS, preset
from pencil.results import VERDICTS, alarm_record, alarm_sentence, judge_all
from pencil.results.label_errors import LabelErrors
from pencil.results.summary import too_many_changes
from pencil.run.build import build_training
from pencil.run.network import Make
from pencil.run.posterior import Posterior, PosteriorOfTraining
from pencil.run.sources import Prepared
from pencil.run.start import StartOfTraining
from pencil.stores import GivenLabels, StoreChoice

EPOCHS = {"given": (2, 28, 20), "prototypes": (15, 15, 20)}
"""By what training starts from, as ``pencil train`` sets them for features."""
_PURPOSE = "use pencil as a scikit-learn estimator"
multiclass = need("sklearn.utils.multiclass", extra="sklearn", purpose=_PURPOSE)
validation = need("sklearn.utils.validation", extra="sklearn", purpose=_PURPOSE)
BaseEstimator: Any = need("sklearn.base", extra="sklearn", purpose=_PURPOSE).BaseEstimator
ClassifierMixin: Any = need("sklearn.base", extra="sklearn", purpose=_PURPOSE).ClassifierMixin

Module = nn.Module | Callable[[tuple[int, ...], int], nn.Module]


class PencilClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that learns from noisy labels, and for every training row what its label should be.

    The defaults are those of the preset ``features``: with the same seed, labels and predictions are those of
    ``pencil train``.

    Args:
        head: The network over features: ``linear``, or ``mlp`` with hidden layers.
        hidden: The widths of the hidden layers of ``mlp``.
        module: A network of your own in place of ``head``, for inputs (N, ...) of any shape: a ``torch.nn.Module``,
            copied for each fit, or a function that builds one from (shape of one input, C). It returns logits (B, C).
        epochs: Of the phases backbone, correction and finetune; by default what suits ``start``: (15, 15, 20) from
            prototypes, (2, 28, 20) from the given labels.
        learning_rate: The network's; a number or a schedule.
        batch_size: Examples per step.
        weight_decay: The network's.
        label_rate: η, the label step per visit in the correction phase.
        pull: κ, how strongly labels are held to those that training starts from; by default what suits ``start``.
        entropy_weight: β, the weight of the entropy of predictions in the correction phase.
        start: The labels that training starts from: ``given``, or ``prototypes``, better ones that are found from the
            inputs in closed form. By default ``prototypes``, but ``given`` for a ``module`` or another ``method``.
        expert: Whether to predict with the network and these prototypes together.
        method: Another method in place of PENCIL and its three knobs, such as ``pencil.CrossEntropy()``.
        normalize: What is removed from the inputs: ``auto`` (mean and deviation), ``mean`` or ``none``.
        device: ``auto``, ``cpu``, ``cuda``, ...
        max_false_relabels: The largest expected share of wrong labels among the rows with the verdict ``relabel``.
        random_state: An int makes the training reproducible.
        verbose: Whether to print a line per epoch.

    Attributes:
        classes_: (C,) the classes, in the type of ``y``.
        n_features_in_: D, the second dimension of the inputs.
        label_distribution_: (N, C) float32, the calibrated probability of each class for each training row.
        corrected_labels_: (N,) the likeliest class of each row, in the type of ``y``.
        confidence_: (N,) float32, its probability.
        p_wrong_: (N,) float32, the probability that the label in ``y`` is wrong.
        verdicts_: (N,) ``keep``, ``relabel`` or ``review``; see ``pencil.VerdictRule``. Trusted rows are kept.
        learned_distribution_: (N, C) float32, y^d, the labels that the method learned with the network; not calibrated.
        errors_: The same as ``pencil.find_errors`` returns, to print, to ask and to answer; see ``pencil.LabelErrors``.
        noise_: The estimated noise of ``y``, a ``pencil.estimates.NoiseEstimate``: rates, transition matrix, alarms.
        alarms_: Reasons not to trust the estimates or the learned labels, with their remedies, as a list of sentences.
        network_: The trained ``torch.nn.Module``.
    """

    def __init__(
        self,
        head: Literal["linear", "mlp"] = "linear",
        *,
        hidden: Sequence[int] = (256,),
        module: Module | None = None,
        epochs: tuple[int, int, int] | None = None,
        learning_rate: Schedule = 0.02,
        batch_size: int = 128,
        weight_decay: float = 0.005,
        label_rate: Schedule = 1.0,
        pull: float | None = None,
        entropy_weight: float = 0.8,
        start: Literal["given", "prototypes"] | None = None,
        expert: bool = False,
        method: Method | None = None,
        normalize: Literal["auto", "mean", "none"] = "auto",
        device: str = "auto",
        max_false_relabels: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.head = head
        self.hidden = hidden
        self.module = module
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.label_rate = label_rate
        self.pull = pull
        self.entropy_weight = entropy_weight
        self.start = start
        self.expert = expert
        self.method = method
        self.normalize = normalize
        self.device = device
        self.max_false_relabels = max_false_relabels
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        trusted: ArrayLike | None = None,
    ) -> PencilClassifier:
        """Train on inputs (N, D), or (N, ...) for a module, and their noisy labels (N,).

        Args:
            X: The inputs: an array, a sparse matrix, texts (N,), or a data frame, also with categories and missing
                values. Texts become hashed n-grams; more than 2,048 sparse columns are hashed to that many.
            y: The labels: numbers or strings.
            sample_weight: (N,) the weight of each row in the network's loss, in any unit; a row of weight 0 does not
                train the network, but still gets a label.
            trusted: (N,) bool, rows whose label is verified and never changes.
        """
        check_parameters(self.get_params(deep=False))
        self._transform = fit_transform(X)
        X = X if self._transform is None else self._transform(X)
        inputs, labels = validation.validate_data(
            self, X, y, allow_nd=self.module is not None, accept_sparse="csr"
        )
        inputs = narrowed(inputs, warn=True)
        multiclass.check_classification_targets(labels)
        self.classes_, numbered = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y: has one class only, {str(self.classes_[0])!r}; give rows of at least two")
        weights = None if sample_weight is None else self._weights(sample_weight, inputs, numbered)
        mask = None if trusted is None else _mask(trusted, len(numbered))
        given = GivenLabels.of(torch.from_numpy(numbered), len(self.classes_), mask)
        self._keep(*self._train(_examples(inputs, given), weights), tuple(inputs.shape[1:]))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """(N, C), the probability of each of ``classes_``."""
        validation.check_is_fitted(self)
        X = X if self._transform is None else self._transform(X)
        inputs = validation.validate_data(
            self, X, reset=False, allow_nd=self.module is not None, accept_sparse="csr"
        )
        inputs = narrowed(inputs, warn=False)
        if inputs.shape[1:] != self._shape:
            raise InputError(
                f"X: one input is {inputs.shape[1:]}, but fit saw {self._shape}; predict on inputs like those"
            )
        runtime = Runtime.alone(self.device)
        network = runtime.place(self.network_)
        preparation = replace(self._preparation, device=runtime.device)
        seen = predictions(network, ArrayInputs(inputs), torch.arange(inputs.shape[0]), preparation, runtime)
        return np.concatenate([probabilities.numpy() for _, probabilities in seen])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(N,), the likeliest of ``classes_``."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _weights(self, sample_weight: ArrayLike, inputs: NDArray[Any], given: NDArray[Any]) -> Tensor:
        """(N,) float32 with mean 1, so that their unit does not change the learning rate and the labels."""
        values = validation._check_sample_weight(
            sample_weight, inputs, dtype=np.float64, ensure_non_negative=True
        )
        counting = np.unique(given[values > 0])
        if len(counting) < 2:
            left = f"only rows of class {str(self.classes_[counting[0]])!r}" if len(counting) else "no rows"
            raise InputError(
                f"sample_weight: {left} have a weight above 0; rows of at least two classes must"
            )
        return torch.from_numpy((values / values.mean()).astype(np.float32))

    def _train(self, examples: Examples, weights: Tensor | None) -> tuple[Training, Posterior]:
        runtime = Runtime.alone(self.device)
        devices = [runtime.device] if runtime.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # a module's dropout draws from torch's own generator
            make = None if self.module is None else _maker(self.module)
            training = build_training(
                self._config(), Prepared(examples, None, None, Splits(examples)), None, runtime, make=make
            )
            training.weights = None if weights is None else weights[training.indices]
            training.events.listeners = [_Lines()] if self.verbose else []
            posterior = PosteriorOfTraining(training, StoreChoice())
            start = StartOfTraining(self._config(), training, None)
            start.begin(0)
            if self.expert and start.found is None:
                raise InputError(
                    "expert: True needs start='prototypes' and inputs (N, D); set start, or expert=False"
                )
            if not Loop(training).run():
                raise KeyboardInterrupt("fit was stopped by a signal")
        if self.expert and start.found is not None:
            training.model = _with_expert(training, start.found)
        return training, posterior.found()

    def _config(self) -> RunConfig:
        """The preset ``features`` with this estimator's parameters."""
        start = preset("features", "X")
        args = {"hidden": list(self.hidden)} if self.head == "mlp" else {}
        knobs: dict[str, Any] = {name: getattr(self, name) for name in ("label_rate", "entropy_weight")}
        labels = self.start or ("given" if self.module or self.method else "prototypes")
        knobs |= {**KNOBS[labels], **({} if self.pull is None else {"pull": self.pull})}
        rate, epochs = self.learning_rate, self.epochs or EPOCHS[labels]
        return start.model_copy(
            update={
                "seed": _seed(self.random_state),
                "data": start.data.model_copy(update={"normalize": self.normalize}),
                "model": Model(name=self.head, args=args),
                "method": Pencil(**knobs) if self.method is None else self.method,
                "phases": three_phases(*map(int, epochs), learning_rate=rate, finetune_rate=rate),
                "optimizer": start.optimizer.model_copy(update={"weight_decay": float(self.weight_decay)}),
                "train": start.train.model_copy(update={"batch_size": int(self.batch_size)}),
                "store": "dense",
                "start": Start(labels=labels),
                "verdict": replace(start.verdict, max_false_relabels=float(self.max_false_relabels)),
            }
        )

    def _keep(self, training: Training, posterior: Posterior, shape: tuple[int, ...]) -> None:
        """What the training ended with, in the order of the rows of X."""
        place = training.indices.argsort()
        given = training.learner.given.subset(place)
        distribution = posterior.rows.gather(place)
        judged = judge_all(
            distribution,
            given.hard,
            self._config().verdict,
            ids=RowNumbers(len(place)),
            trusted=given.trusted,
            surest=posterior.noise.surest,
            doubt=0.0 if posterior.checks is None else posterior.checks.doubt,
        )
        assert isinstance(judged.distribution, Tensor), "the store keeps whole rows"
        self.label_distribution_ = judged.distribution.numpy()
        self.learned_distribution_ = training.learner.label_distribution(place).cpu().numpy()
        self.confidence_ = judged.confidence.numpy()
        self.p_wrong_ = judged.p_wrong.numpy()
        self.corrected_labels_ = self.classes_[judged.suggested.numpy()]
        self.verdicts_ = np.array(VERDICTS)[judged.verdict.numpy()]
        self.noise_ = posterior.noise
        checks = posterior.checks or Checks.told(passed=posterior.noise.surest > 0)
        none = (1 - judged.distribution.sum(1, keepdim=True)).clamp_min(0)
        learned = torch.from_numpy(self.learned_distribution_.argmax(1))
        likeliest = learned if posterior.likeliest is None else posterior.likeliest[place]
        whole = torch.cat([judged.distribution, none], 1)
        belief = Belief(given.hard, whole, likeliest, checks)
        self.errors_ = LabelErrors(belief, self.classes_, max_false=self.max_false_relabels)
        changed = int((self.learned_distribution_.argmax(1) != given.hard.numpy()).sum())
        self.alarms_ = _alarms(posterior.noise, changed, len(place))
        self.network_ = training.backbone.cpu().eval()
        self._preparation = replace(training.preparation, device=torch.device("cpu"))
        self._shape = shape


def _alarms(noise: NoiseEstimate, changed: int, rows: int) -> list[str]:
    """The alarms of the estimates, and whether the method changed more labels than they allow."""
    late = too_many_changes(changed, rows, None if noise.alarms else noise.rate.high)
    alarms = [*noise.alarms, *([] if late is None else [late])]
    return [alarm_sentence(alarm_record(alarm)) for alarm in alarms]


def _with_expert(training: Training, start: Fitted) -> nn.Module:
    """The network and the prototypes together."""
    normalize = training.preparation.normalize
    mean, std = (None, None) if normalize is None else map(torch.tensor, (normalize.mean, normalize.std))
    return WithExpert(training.backbone, PrototypeExpert(start.classifier, mean, std))


class _Lines(Listener):
    """A line per epoch."""

    def handle(self, event: Event) -> None:
        if event.kind == "epoch":
            values = event.values
            print(
                f"[PencilClassifier] epoch {values['epoch']} ({values['phase']}): loss {values['loss']:.4f}, "
                f"labels changed {values['labels_changed']}"
            )

    def close(self) -> None:
        """Nothing to close."""


def _examples(inputs: NDArray[Any], labels: GivenLabels) -> Examples:
    names = tuple(map(str, range(labels.num_classes)))
    return Examples(ArrayInputs(inputs), labels, names, RowNumbers(len(labels)))


def _mask(trusted: ArrayLike, count: int) -> Tensor:
    mask = np.asarray(trusted)
    if mask.shape != (count,) or not np.isin(mask, (0, 1)).all():
        raise InputError(
            f"trusted: {mask.dtype} {mask.shape} must be bool ({count},), one entry per row of X"
        )
    return torch.from_numpy(mask.astype(bool))


def _maker(module: Module) -> Make:
    """A function that builds the network of a user's module or function, under its name."""

    def make(shape: tuple[int, ...], classes: int) -> nn.Module:
        network: Any = copy.deepcopy(module) if isinstance(module, nn.Module) else module(shape, classes)
        if not isinstance(network, nn.Module):
            raise InputError(
                f"module: the function returned {type(network).__name__}; it must return a torch.nn.Module"
            )
        return network

    make.__name__ = getattr(module, "__name__", type(module).__name__)
    return make


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    drawn = need("sklearn.utils", extra="sklearn", purpose=_PURPOSE).check_random_state(random_state)
    return int(drawn.randint(np.iinfo(np.int32).max))
