"""The estimator: scikit-learn's own checks, the engine's own results, and what is ours besides."""

import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("sklearn")

import joblib
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pencil import CosineSchedule, CrossEntropy, PencilError
from pencil.config import RunConfig
from pencil.configure import train_config
from pencil.estimates import Alarm, Interval
from pencil.integrations.sklearn import PencilClassifier, _alarms
from pencil.methods import CoTeaching
from pencil.presets import preset, start_from

pytestmark = pytest.mark.slow

FEW = (2, 9, 2)
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "batches are drawn from the rows, so a row of weight 2 is not two rows, nor one of weight 0 none"
    )
    for kind in ("dense", "sparse")
}


def few(**parameters):
    return PencilClassifier(**{"epochs": FEW, "batch_size": 20, "random_state": 0, **parameters})


@parametrize_with_checks([PencilClassifier()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_defaults_are_those_of_the_preset_for_features():
    wanted = preset("features", "X").table() | {"store": "dense"}
    assert PencilClassifier(random_state=0, start="given")._config() == RunConfig.of(wanted)
    start_from(wanted, "prototypes")
    assert PencilClassifier(random_state=0)._config() == RunConfig.of(wanted)


def test_it_corrects_labels_and_predicts_in_the_labels_own_type(points):
    classifier = few().fit(points.values, points.noisy)
    assert classifier.classes_.tolist() == ["ant", "bee", "cow", "żubr"]
    assert classifier.n_features_in_ == 8
    assert classifier.corrected_labels_.dtype == points.noisy.dtype
    assert (points.noisy == points.true).mean() < 0.8
    assert (classifier.corrected_labels_ == points.true).mean() >= 0.95
    assert classifier.score(points.test_values, points.test_true) > 0.95


def test_distribution_confidence_and_verdicts_tell_the_same_story(points):
    classifier = few(label_rate=4.0).fit(points.values, points.noisy)
    distribution = classifier.label_distribution_
    assert distribution.shape == (200, 4)
    np.testing.assert_allclose(distribution.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(classifier.confidence_, distribution.max(axis=1))
    assert np.array_equal(classifier.corrected_labels_, classifier.classes_[distribution.argmax(axis=1)])
    given = np.searchsorted(classifier.classes_, points.noisy)
    np.testing.assert_allclose(classifier.p_wrong_, 1 - distribution[np.arange(200), given], atol=1e-6)
    same = classifier.corrected_labels_ == points.noisy
    assert set(classifier.verdicts_[same & (classifier.p_wrong_ <= 0.5)]) == {"keep"}
    relabelled = classifier.verdicts_ == "relabel"
    assert relabelled.any()
    assert not same[relabelled].any()
    assert (1 - classifier.confidence_[relabelled]).mean() <= classifier.max_false_relabels
    assert classifier.noise_.rate.low <= classifier.noise_.rate.value <= classifier.noise_.rate.high


def test_alarms_are_those_of_the_estimates_and_of_too_many_changes(points):
    assert few().fit(points.values, points.true).alarms_ == []
    noise = few().fit(points.values, points.noisy).noise_
    doubtful = replace(noise, alarms=(Alarm("matrix", "the matrix is unclear", "use better features"),))
    assert _alarms(doubtful, 0, 200) == ["the matrix is unclear. Remedy: use better features"]
    bounded = replace(noise, rate=Interval(0.3, 0.2, 0.4))
    (changed,) = _alarms(bounded, 190, 200)
    assert changed.startswith("95.0 % of the labels were changed, but at most ")


def test_no_share_of_errors_means_no_relabels(points):
    classifier = few(max_false_relabels=0.0).fit(points.values, points.noisy)
    assert set(classifier.verdicts_) == {"keep", "review"}


@pytest.mark.parametrize("start", ["given", "prototypes"])
def test_labels_and_accuracy_are_those_of_a_run_of_the_engine(tmp_path, points, start):
    from pencil.run import LabelTable, judged_labels, train

    numbers, test = (np.unique(each, return_inverse=True)[1] for each in (points.noisy, points.test_true))
    path = tmp_path / "points.npz"
    np.savez(path, X=points.values, y=numbers, X_test=points.test_values, y_test=test)
    directory = train(train_config(str(path), None, None, start=start, seed=3), tmp_path / "run")
    classifier = PencilClassifier(random_state=3, start=start).fit(points.values, numbers)
    chunks, _ = judged_labels(directory)
    assert np.array_equal(classifier.label_distribution_, torch.cat([c.distribution for c in chunks]).numpy())
    learned = torch.cat([c.distribution for c in LabelTable.open(directory).learned_chunks()])
    assert np.array_equal(classifier.learned_distribution_, learned.numpy())
    assert classifier.score(points.test_values, test) == directory.summary["last"]["test_accuracy"]


def test_the_same_state_gives_the_same_fit_and_another_another(points):
    first, again, other = (few(random_state=seed).fit(points.values, points.noisy) for seed in (1, 1, 2))
    assert np.array_equal(first.learned_distribution_, again.learned_distribution_)
    assert np.array_equal(first.predict_proba(points.values), again.predict_proba(points.values))
    assert not np.array_equal(first.learned_distribution_, other.learned_distribution_)
    drawn = [few(random_state=np.random.RandomState(5)).fit(points.values, points.noisy) for _ in range(2)]
    assert np.array_equal(drawn[0].learned_distribution_, drawn[1].learned_distribution_)


def test_fitting_leaves_the_global_random_states_alone(points):
    torch.manual_seed(4)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    few(module=dropped).fit(points.values, points.noisy)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_trusted_rows_keep_their_label(points):
    wrong = points.noisy != points.true
    free = few().fit(points.values, points.noisy)
    locked = few().fit(points.values, points.noisy, trusted=wrong)
    assert (free.corrected_labels_[wrong] != points.noisy[wrong]).any()
    assert np.array_equal(locked.corrected_labels_[wrong], points.noisy[wrong])
    assert set(locked.verdicts_[wrong]) == {"keep"}


def test_the_unit_of_weights_changes_nothing_but_weights_do(points):
    weights = np.where(points.noisy == points.true, 1.0, 0.25)
    plain = few().fit(points.values, points.noisy)
    ones = few().fit(points.values, points.noisy, sample_weight=np.full(200, 7.0))
    weighted, scaled = (
        few().fit(points.values, points.noisy, sample_weight=unit * weights) for unit in (1, 1024)
    )
    assert np.array_equal(ones.learned_distribution_, plain.learned_distribution_)
    assert np.array_equal(weighted.learned_distribution_, scaled.learned_distribution_)
    assert np.array_equal(weighted.predict_proba(points.values), scaled.predict_proba(points.values))
    assert not np.array_equal(weighted.learned_distribution_, plain.learned_distribution_)


def test_a_row_of_weight_0_teaches_nothing_but_gets_a_label(points):
    """Labels of ants lost but for one: where the lost ones say bee, and where nobody hears them."""
    ants = np.flatnonzero(points.true == "ant")
    labels = np.where(points.true == "ant", "bee", points.true)
    labels[ants[0]] = "ant"
    silent = few(method=CrossEntropy()).fit(
        points.values, labels, sample_weight=~np.isin(np.arange(200), ants[1:])
    )
    heard = few(method=CrossEntropy()).fit(points.values, labels)
    bee = list(silent.classes_).index("bee")
    new = points.test_values[points.test_true == "ant"]
    assert heard.predict_proba(new)[:, bee].mean() > 0.8 > 0.5 > silent.predict_proba(new)[:, bee].mean()
    assert len(silent.corrected_labels_) == 200


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_it_works_in_a_pipeline_and_in_a_search(points, head):
    pipeline = make_pipeline(StandardScaler(), few(head=head, hidden=(16,)))
    assert cross_val_score(pipeline, points.values, points.noisy, cv=2).mean() > 0.55
    search = GridSearchCV(pipeline, {"pencilclassifier__pull": [0.0, 1.0]}, cv=2)
    search.fit(points.values, points.noisy, pencilclassifier__trusted=points.noisy == points.true)
    assert search.best_params_["pencilclassifier__pull"] in (0.0, 1.0)
    assert search.score(points.test_values, points.test_true) > 0.9


@pytest.mark.parametrize("module", [None, nn.Sequential(nn.Linear(8, 4))])
def test_a_clone_a_pickle_and_joblib_keep_it(points, tmp_path, module):
    classifier = few(module=module, learning_rate=CosineSchedule(0.05, 0.01))
    copied = clone(classifier)
    assert copied.get_params().keys() == classifier.get_params().keys()
    assert copied.learning_rate == classifier.learning_rate
    copied.fit(points.values, points.noisy)
    joblib.dump(copied, tmp_path / "classifier.joblib")
    for kept in (pickle.loads(pickle.dumps(copied)), joblib.load(tmp_path / "classifier.joblib")):
        assert np.array_equal(kept.predict_proba(points.values), copied.predict_proba(points.values))
        assert np.array_equal(kept.verdicts_, copied.verdicts_)
    with pytest.raises(NotFittedError):
        clone(copied).predict(points.values)


def dropped(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(int(np.prod(shape)), classes))


def test_a_module_is_copied_for_each_fit(points):
    module = nn.Linear(8, 4)
    before = module.weight.detach().clone()
    first, again = (few(module=module).fit(points.values, points.noisy) for _ in range(2))
    assert torch.equal(module.weight, before)
    assert not torch.equal(first.network_.weight, before)
    assert torch.equal(first.network_.weight, again.network_.weight)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_a_function_builds_the_network_for_inputs_of_any_shape(points, dtype):
    images = np.clip(20 * points.values + 60, 0, 255).astype(dtype).reshape(200, 2, 2, 2)
    classifier = few(module=dropped).fit(images, points.noisy)
    again = few(module=dropped).fit(images, points.noisy)
    assert (classifier.corrected_labels_ == points.true).mean() > 0.9
    assert np.array_equal(
        classifier.label_distribution_, again.label_distribution_
    )  # dropout goes by the seed
    assert np.array_equal(classifier.predict(images), classifier.predict(images.astype(np.float64)))
    with pytest.raises(ValueError, match=r"X: one input is \(2, 4\), but fit saw \(2, 2, 2\)"):
        classifier.predict(images.reshape(200, 2, 4))


def test_another_method_may_take_the_place_of_pencil(points):
    plain = few(method=CrossEntropy()).fit(points.values, points.noisy)
    learned = plain.classes_[plain.learned_distribution_.argmax(axis=1)]
    assert np.array_equal(learned, points.noisy)
    assert plain.score(points.test_values, points.test_true) > 0.5


def test_verbose_prints_a_line_per_epoch(points, capsys):
    few(verbose=True).fit(points.values, points.noisy)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(FEW)
    assert lines[-1].startswith("[PencilClassifier] epoch 13 (finetune): loss ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("head", "conv", "head: 'conv' must be 'linear' or 'mlp'; for a network of your own"),
        ("hidden", (0,), r"hidden: \(0,\) must be widths"),
        ("module", 3, "module: 3 must be a torch.nn.Module"),
        ("epochs", (1, 2), r"epochs: \(1, 2\) must be three whole numbers"),
        ("epochs", (0, 0, 0), r"epochs: \(0, 0, 0\) must be three whole numbers"),
        ("epochs", 5, "epochs: 5 must be three whole numbers"),
        ("learning_rate", -1, "learning_rate: -1 must be a number from 0 to 1,000,000, or a schedule"),
        (
            "learning_rate",
            CosineSchedule(0.1, -0.1),
            "learning_rate: .* must be a number from 0 to 1,000,000, or a schedule",
        ),
        ("batch_size", 0, "batch_size: 0 must be a whole number above 0"),
        ("batch_size", True, "batch_size: True must be a whole number above 0"),
        ("weight_decay", float("nan"), "weight_decay: nan must be a number from 0 to 1,000,000"),
        ("label_rate", "high", "label_rate: 'high' must be a number"),
        ("pull", -0.5, "pull: -0.5 must be a number"),
        ("entropy_weight", None, "entropy_weight: None must be a number"),
        ("method", CoTeaching(), "method: CoTeaching.* must be None .* pencil train"),
        ("normalize", "std", "normalize: 'std' must be 'auto', 'mean' or 'none'"),
        ("device", "gpu", "train.device: 'gpu' is not a device"),
        ("module", lambda shape, classes: "net", "module: the function returned str"),
        ("module", lambda shape, classes: nn.Linear(8, 3), r"module = '<lambda>': .* returns \(1, 3\)"),
        ("module", nn.Linear(5, 4), "module = 'Linear' fails with RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_mistake_names_the_parameter_the_value_and_the_remedy(points, name, value, words):
    with pytest.raises(PencilError, match=words):
        few(**{name: value}).fit(points.values, points.noisy)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trusted": [True]}, r"trusted: bool \(1,\) must be bool \(200,\)"),
        ({"trusted": np.arange(200)}, r"trusted: int64 \(200,\) must be bool"),
        ({"sample_weight": np.zeros(200)}, "[Ss]ample.weight"),
    ],
    ids=["too few", "no mask", "all 0"],
)
def test_a_mistake_in_an_array_is_a_value_error_too(points, arguments, words):
    with pytest.raises(ValueError, match=words):
        few().fit(points.values, points.noisy, **arguments)


def test_weights_that_leave_one_class_are_refused(points):
    with pytest.raises(PencilError, match="sample_weight: only rows of class 'cow' have a weight above 0"):
        few().fit(points.values, points.noisy, sample_weight=points.noisy == "cow")


def test_every_parameter_has_a_line_in_the_docstring():
    names = list(inspect.signature(PencilClassifier).parameters)
    assert all(f"        {name}: " in PencilClassifier.__doc__ for name in names)


def test_a_network_that_leaves_the_finite_numbers_is_no_result(points):
    class Overflowing(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs).exp().exp().exp()

    classifier = few(module=Overflowing(points.values.shape[1], 4), learning_rate=10.0)
    with pytest.raises(PencilError, match=r"training stopped after step .* is not finite"):
        classifier.fit(points.values, points.noisy)
    assert not hasattr(classifier, "network_")


def test_prototypes_start_the_estimator_and_may_predict_with_it():
    rng = np.random.default_rng(0)
    true = rng.integers(6, size=600)
    X = np.eye(12)[true] * 2.5 + rng.normal(size=(600, 12))
    y = np.where(rng.random(600) < 0.6, rng.integers(6, size=600), true)
    settings = {"epochs": (2, 8, 4), "random_state": 0}
    plain = PencilClassifier(**settings).fit(X, y)
    started = PencilClassifier(start="prototypes", **settings).fit(X, y)
    both = PencilClassifier(start="prototypes", expert=True, **settings).fit(X, y)
    learned = (started.learned_distribution_.argmax(1) == true).mean()
    assert learned >= (plain.learned_distribution_.argmax(1) == true).mean()
    assert (both.predict(X) == true).mean() > 0.85
    assert not np.allclose(both.predict_proba(X), started.predict_proba(X))
    np.testing.assert_allclose(both.predict_proba(X).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "words", [{"start": "given"}, {"module": nn.Linear(4, 2)}, {"method": CrossEntropy()}]
)
def test_a_second_expert_needs_the_start_and_says_so_before_training(words, capsys):
    with pytest.raises(ValueError, match=r"expert: True needs start='prototypes' and inputs \(N, D\); set"):
        PencilClassifier(expert=True, verbose=True, epochs=(1, 5, 0), **words).fit(np.eye(4), [0, 1, 0, 1])
    assert "epoch" not in capsys.readouterr().out
