"""From a data section to examples: read, corrupted, limited, held out; each by its own seed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.data import write_label_file
from pencil.errors import ConfigError, DataError
from pencil.kinds import (
    CifarData,
    DatasetData,
    FeaturesData,
    IdxData,
    ImagesData,
    LabelFile,
    MatrixNoise,
    RateNoise,
    TrustedLabels,
)
from pencil.presets import preset
from pencil.run import check_apart, noisy_labels, prepare_examples, read_splits, rows_to_show, train
from pencil.run.noise import describe_noise, noise_matrix
from pencil.stores import GivenLabels


@pytest.fixture
def section(points):
    def make(**values):
        return FeaturesData(**{"kind": "features", "path": str(points), **values})

    return make


@pytest.fixture
def clean(section):
    return read_splits(section()).train


def symmetric(rate=0.4, **values):
    return RateNoise(kind="symmetric", rate=rate, **values)


# ceilings


def test_the_clean_ceiling_learns_the_truth_and_the_oracle_only_from_right_rows(section, clean):
    noise = {"noise": symmetric(), "validation": 0.25}
    given, best, oracle = (
        prepare_examples(section(**noise, ceiling=ceiling), seed=1) for ceiling in (None, "clean", "oracle")
    )
    assert torch.equal(best.train.labels.values, given.train.reference)
    assert torch.equal(best.validation.labels.values, given.validation.reference)
    right = given.train.labels.values == given.train.reference
    assert 0 < int(right.sum()) < len(right)
    assert list(oracle.train.ids) == [given.train.ids[row] for row in right.nonzero()[:, 0].tolist()]
    assert torch.equal(oracle.train.labels.values, oracle.train.reference)
    assert torch.equal(oracle.validation.labels.values, given.validation.labels.values)


@pytest.mark.parametrize("ceiling", ["clean", "oracle"])
def test_a_ceiling_without_the_truth_is_refused(section, ceiling):
    with pytest.raises(
        ConfigError, match=rf"data.ceiling: '{ceiling}' needs the true labels.*set data.noise"
    ):
        prepare_examples(section(ceiling=ceiling), seed=0)


def test_an_oracle_without_a_single_right_row_is_refused(section):
    with pytest.raises(DataError, match="no given label is right"):
        prepare_examples(section(noise=RateNoise(kind="circular", rate=1.0), ceiling="oracle"), seed=0)


# noise


def test_noise_goes_by_the_seed_and_the_truth_is_kept_for_measuring(section, clean):
    first, again = (prepare_examples(section(noise=symmetric()), seed=1).train for _ in range(2))
    other = prepare_examples(section(noise=symmetric()), seed=2).train
    assert torch.equal(first.labels.values, again.labels.values)
    assert not torch.equal(first.labels.values, other.labels.values)
    assert torch.equal(first.reference, clean.labels.values)
    share = float((first.labels.values != first.reference).float().mean())
    assert share == pytest.approx(0.4 * 2 / 3, abs=0.12)


def test_noise_with_a_seed_of_its_own_does_not_follow_the_runs(section):
    labels = [
        prepare_examples(section(noise=symmetric(seed=9)), seed=seed).train.labels.values for seed in (1, 2)
    ]
    assert torch.equal(*labels)


def test_test_labels_stay_clean(section, clean):
    prepared = prepare_examples(section(noise=symmetric(1.0), validation=0.1), seed=0)
    assert torch.equal(prepared.test.labels.values, read_splits(section()).test.labels.values)


def test_circular_instance_and_matrix_noise(clean):
    circular = noisy_labels(clean, RateNoise(kind="circular", rate=1.0), seed=0).values
    assert torch.equal(circular, (clean.labels.values + 1) % 3)
    instance = noisy_labels(clean, RateNoise(kind="instance", rate=0.3), seed=0).values
    assert torch.equal(instance, noisy_labels(clean, RateNoise(kind="instance", rate=0.3), seed=0).values)
    assert 0.15 < float((instance != clean.labels.values).float().mean()) < 0.45
    matrix = MatrixNoise(kind="matrix", matrix=((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    swapped = torch.tensor([1, 0, 2])[clean.labels.values]
    assert torch.equal(noisy_labels(clean, matrix, seed=0).values, swapped)


def test_noise_that_does_not_fit_the_classes_is_named(clean):
    with pytest.raises(ConfigError, match=r"data.noise.kind: 'cifar10' needs .* but the data has 3"):
        noisy_labels(clean, RateNoise(kind="cifar10", rate=0.2), seed=0)
    with pytest.raises(ConfigError, match=r"data.noise.matrix: \(2, 2\) for 3 classes"):
        noisy_labels(clean, MatrixNoise(kind="matrix", matrix=((1.0, 0.0), (0.0, 1.0))), seed=0)


def test_the_matrix_of_noise_is_its_own_or_counted_against_the_truth(section, clean, tmp_path):
    train = prepare_examples(section(noise=symmetric(0.3)), seed=0).train
    assert noise_matrix(symmetric(0.3), train).tolist() == [pytest.approx(row) for row in _symmetric(0.3)]
    instance = RateNoise(kind="instance", rate=0.4)
    train = prepare_examples(section(noise=instance), seed=0).train
    counted = noise_matrix(instance, train)
    for true in range(3):
        mine = train.labels.values[train.reference == true]
        assert counted[true].tolist() == [float((mine == seen).double().mean()) for seen in range(3)]


def test_a_class_without_rows_keeps_its_name_in_a_counted_matrix(section):
    instance = RateNoise(kind="instance", rate=0.4)
    train = prepare_examples(section(noise=instance), seed=0).train
    without = train.subset((train.reference != 1).nonzero().flatten())
    assert noise_matrix(instance, without)[1].tolist() == [0.0, 1.0, 0.0]


def _symmetric(rate):
    return [[rate / 3 + (1 - rate) * (i == j) for j in range(3)] for i in range(3)]


def test_cifar10s_noise_moves_trucks_to_automobiles(clean):
    labels = GivenLabels.of(torch.full((len(clean),), 9), 10)
    cifar = type(clean)(clean.inputs, labels, tuple("abcdefghij"), clean.ids)
    assert (noisy_labels(cifar, RateNoise(kind="cifar10", rate=1.0), seed=0).values == 1).all()


def test_soft_labels_cannot_be_corrupted(clean):
    soft = clean.with_labels(GivenLabels.of(torch.ones(len(clean), 3)))
    with pytest.raises(ConfigError, match=r"needs hard labels.*leave data.noise out"):
        noisy_labels(soft, symmetric(), seed=0)


def test_trusted_rows_are_never_corrupted(clean, tmp_path):
    trusted = torch.arange(len(clean)) < 40
    known = clean.with_labels(GivenLabels.of(clean.labels.values, 3, trusted))
    np.save(tmp_path / "all.npy", ((clean.labels.values + 1) % 3).numpy())
    everywhere = LabelFile(kind="file", path=str(tmp_path / "all.npy"))
    for noise in (RateNoise(kind="circular", rate=1.0), everywhere):
        noisy = noisy_labels(known, noise, seed=0)
        assert torch.equal(noisy.values[:40], clean.labels.values[:40])
        assert torch.equal(noisy.values[40:], (clean.labels.values[40:] + 1) % 3)
        assert torch.equal(noisy.trusted, trusted)


# label files


def test_a_label_file_is_laid_over_by_id_or_by_order(clean, section, tmp_path):
    noisy = (clean.labels.values + 1) % 3
    backwards = torch.arange(len(clean)).flip(0)
    ids = [clean.ids[row] for row in backwards.tolist()]
    write_label_file(
        tmp_path / "by id.csv", ids, noisy[backwards], clean.class_names, clean=clean.labels.values[backwards]
    )
    np.save(tmp_path / "by order.npy", noisy.numpy())
    for name in ("by id.csv", "by order.npy"):
        train = prepare_examples(
            section(noise=LabelFile(kind="file", path=str(tmp_path / name))), seed=0
        ).train
        assert torch.equal(train.labels.values, noisy)
        assert torch.equal(train.reference, clean.labels.values)
    known = LabelFile(kind="file", path=str(tmp_path / "by id.csv"), key="clean")
    assert torch.equal(noisy_labels(clean, known, seed=0).values, clean.labels.values)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(120, 3), r"noisy.npy contains the label 3, but the data's 3 classes are numbered from 0"),
        (np.full(120, -1), r"noisy.npy contains the label -1"),
        (np.zeros(7, int), r"noisy.npy: 7 labels for 120"),
    ],
)
def test_a_label_file_that_does_not_fit_is_named(clean, tmp_path, labels, message):
    np.save(tmp_path / "noisy.npy", labels)
    with pytest.raises(DataError, match=message):
        noisy_labels(clean, LabelFile(kind="file", path=str(tmp_path / "noisy.npy")), seed=0)


def test_numbers_that_may_be_names_or_places_of_classes_are_refused(clean, tmp_path):
    from_1 = replace(clean, class_names=("1", "2", "3"))
    places = torch.arange(120) % 3
    file = LabelFile(kind="file", path=str(tmp_path / "noisy.npy"))
    np.save(file.path, places.numpy())
    assert torch.equal(noisy_labels(from_1, file, seed=0).values, places)
    for labels in (places + 1, places % 2 + 1):
        np.save(file.path, labels.numpy())
        with pytest.raises(DataError, match=r"has the labels 1 to \d, .* are called 1 to 3; .* write a CSV"):
            noisy_labels(from_1, file, seed=0)
    named = LabelFile(kind="file", path=str(tmp_path / "noisy.csv"))
    Path(named.path).write_text("label\n" + "".join(f"{label}\n" for label in (places + 1).tolist()))
    assert torch.equal(noisy_labels(from_1, named, seed=0).values, places)


# validation and limit


def test_validation_rows_are_held_out_and_noisy_too(section):
    whole = prepare_examples(section(noise=symmetric()), seed=3).train
    prepared = prepare_examples(section(noise=symmetric(), validation=0.25), seed=3)
    assert (len(prepared.train), len(prepared.validation)) == (90, 30)
    assert not set(prepared.train.ids) & set(prepared.validation.ids)
    assert {*prepared.train.ids, *prepared.validation.ids} == set(whole.ids)
    noisy = dict(zip(whole.ids, whole.labels.values.tolist(), strict=True))
    held = prepared.validation
    assert held.labels.values.tolist() == [noisy[name] for name in held.ids]
    assert not torch.equal(held.labels.values, held.reference)


def test_the_split_goes_by_seed_and_not_by_noise(section):
    ids = [
        list(prepare_examples(section(validation=0.25, noise=noise), seed=seed).validation.ids)
        for noise, seed in ((None, 3), (symmetric(), 3), (None, 4))
    ]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]


def test_a_limit_draws_rows_by_seed_after_the_noise(section):
    whole = prepare_examples(section(noise=symmetric()), seed=3).train
    noisy = dict(zip(whole.ids, whole.labels.values.tolist(), strict=True))
    few, again = (prepare_examples(section(noise=symmetric(), limit=20), seed=3).train for _ in range(2))
    assert len(few) == 20
    assert list(few.ids) == list(again.ids)
    assert few.labels.values.tolist() == [noisy[name] for name in few.ids]
    assert list(few.ids) != list(prepare_examples(section(limit=20), seed=4).train.ids)
    assert len(prepare_examples(section(limit=1000), seed=3).train) == 120


def test_a_share_that_leaves_an_empty_part_is_refused(section):
    for share in (0.001, 0.999):
        with pytest.raises(
            ConfigError, match=r"data.validation: 0.\d+ of 120 rows leaves an empty part; set"
        ):
            prepare_examples(section(validation=share), seed=0)


# readers


def test_one_class_is_nothing_to_learn(section, tmp_path):
    np.savez(tmp_path / "one.npz", X=np.ones((4, 2), "f4"), y=np.zeros(4, int))
    with pytest.raises(DataError, match=r"one.npz has one class only; give data with at least two"):
        prepare_examples(section(path=str(tmp_path / "one.npz")), seed=0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.full((4, 2), np.nan, "f4"), "y": [0, 1, 0, 1]}, "NaN or infinity, first in row 0"),
        ({"X": np.ones((4, 2), "f4"), "y": [0, 1, 0, -1]}, "from 0; found -1"),
        ({"X": np.ones((4, 2), "f4"), "y": [0, 1, 0, 5], "names": ["a", "b"]}, "label 5 is out of range"),
        ({"X": np.ones((0, 2), "f4"), "y": np.zeros(0, int)}, "N > 0"),
        ({"data": np.ones((4, 2), "f4"), "y": [0, 1, 0, 1]}, "found the arrays data, y"),
    ],
)
def test_whatever_is_wrong_with_a_file_its_path_is_told(section, tmp_path, arrays, message):
    np.savez(tmp_path / "bad file.npz", **arrays)
    with pytest.raises(DataError, match=rf"bad file.npz.*{message}"):
        read_splits(section(path=str(tmp_path / "bad file.npz")))


def test_a_path_that_does_not_exist_says_where_it_was_looked_for(section, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"data.path: 'no.npz' does not exist in {tmp_path}; give"):
        read_splits(section(path="no.npz"))


def test_arrays_with_names_of_their_own_go_by_keys(section, points, tmp_path):
    arrays = np.load(points)
    np.savez(tmp_path / "own.npz", data=arrays["X"], target=arrays["y"])
    keys = {"features": "data", "labels": "target"}
    assert len(read_splits(section(path=str(tmp_path / "own.npz"), keys=keys)).train) == 120


def test_an_npy_of_features_needs_a_file_of_labels(section, points, tmp_path):
    np.save(tmp_path / "x.npy", np.load(points)["X"])
    np.save(tmp_path / "y.npy", np.load(points)["y"])
    with pytest.raises(
        DataError, match=r"data.labels: missing; .*x.npy holds features alone: --set data.labels=FILE"
    ):
        read_splits(section(path=str(tmp_path / "x.npy")))
    splits = read_splits(section(path=str(tmp_path / "x.npy"), labels=str(tmp_path / "y.npy")))
    assert splits.train.labels.values.tolist() == np.load(points)["y"].tolist()


def test_every_kind_has_its_reader(tmp_path, manifest):
    for data in (
        IdxData(kind="idx", path=str(tmp_path)),
        CifarData(kind="cifar10", path=str(tmp_path)),
        CifarData(kind="cifar100", path=str(tmp_path), coarse=True),
        ImagesData(kind="folder", path=str(tmp_path)),
    ):
        with pytest.raises(DataError, match=tmp_path.name):
            read_splits(data)
    splits = read_splits(ImagesData(kind="manifest", path=str(manifest), size=4, channels=1))
    assert splits.train.inputs.fetch(torch.tensor([0])).shape == (1, 1, 4, 4)


def test_a_manifest_tells_votes_and_trust(manifest):
    train = read_splits(ImagesData(kind="manifest", path=str(manifest))).train
    assert train.class_names == ("owl", "żubr")
    assert train.labels.trusted.tolist() == [True] * 4 + [False] * 8
    assert train.labels.values[0].tolist() == [0.0, 1.0]
    assert train.labels.values[6].tolist() == [0.25, 0.75]


# your own


OWN = """
import torch
from pencil.data import Examples, Splits, TensorInputs
from pencil.stores import GivenLabels

def data(rows=4, wrong=None):
    if wrong:
        raise LookupError(wrong)
    labels = GivenLabels.of(torch.arange(rows) % 2)
    return Splits(Examples(TensorInputs(torch.ones(rows, 2)), labels, ("a", "b"), list("abcdefgh"[:rows])))

def number():
    return 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_source.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda function, **args: DatasetData(kind="python", path=f"own_source:{function}", args=args)
    sys.modules.pop("own_source", None)


def test_your_own_function_is_called_with_its_args(own):
    assert len(prepare_examples(own("data", rows=6), seed=0).train) == 6


def test_what_goes_wrong_in_your_own_function_is_told_with_the_line(own):
    with pytest.raises(
        ConfigError, match=r"'own_source:data' fails with LookupError: oops \(in own_source.py, line 8\)"
    ):
        read_splits(own("data", wrong="oops"))
    with pytest.raises(
        ConfigError, match=r"unexpected keyword argument 'row'.*; fix that code or its args"
    ) as caught:
        read_splits(own("data", row=6))
    assert "sources.py" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"own_source:number returned int; it must return pencil.data"):
        read_splits(own("number"))


# as many of each class


def test_per_class_takes_as_many_of_each_given_label_by_seed(section, clean):
    noise = symmetric(seed=9)
    first, again = (prepare_examples(section(noise=noise, per_class=20), seed=1).train for _ in range(2))
    other = prepare_examples(section(noise=noise, per_class=20), seed=2).train
    assert first.labels.hard.bincount().tolist() == [20] * 3
    assert list(first.ids) == list(again.ids) != list(other.ids)
    places = [list(clean.ids).index(name) for name in first.ids]
    assert places == sorted(set(places))
    given = prepare_examples(section(noise=noise), seed=1).train.labels.hard
    assert first.labels.hard.tolist() == given[places].tolist()


def test_a_class_too_rare_for_per_class_is_named(section, clean):
    counts = clean.labels.hard.bincount()
    rare = int(counts.argmin())
    with pytest.raises(
        ConfigError, match=rf"only {counts[rare]} rows are labelled {clean.class_names[rare]!r}"
    ):
        prepare_examples(section(per_class=int(counts[rare]) + 1), seed=0)


def test_a_source_may_hold_out_rows_of_its_own(points):
    """Clothing1M has clean validation images; a share asked for takes their place."""
    sys.modules["held_out_source"] = module = type(sys)("held_out_source")
    splits = read_splits(FeaturesData(kind="features", path=str(points)))
    module.make = lambda: replace(splits, validation=splits.test)
    try:
        section = DatasetData(kind="python", path="held_out_source:make")
        assert len(prepare_examples(section, seed=0).validation) == len(splits.test)
        asked = prepare_examples(section.model_copy(update={"validation": 0.5}), seed=0)
        assert len(asked.validation) == len(splits.train) // 2
    finally:
        del sys.modules["held_out_source"]


def test_too_few_rows_are_remarked_on_when_a_run_begins_and_not_when_it_is_shown(tmp_path):
    np.savez(tmp_path / "few.npz", X=np.eye(3), y=[0, 1, 0])
    config = preset("features", str(tmp_path / "few.npz"))
    with pytest.warns(UserWarning, match=r"few\.npz: 3 rows are too few for 2 classes"):
        run = train(config, tmp_path / "run")
    assert len(rows_to_show(run).train) == 3


def test_symmetric_noise_says_how_much_it_changes():
    assert "over 3 classes changes about 20.0 % of the labels" in describe_noise(symmetric(0.3), 3)
    assert describe_noise(RateNoise(kind="circular", rate=0.3), 3) is None
    assert describe_noise(None, 3) is None


@pytest.mark.parametrize(
    ("field", "setting"),
    [
        ("data.path", {"path": "own.csv"}),
        ("data.labels", {"labels": "own.csv"}),
        ("data.trusted.path", {"trusted": TrustedLabels(path="own.csv")}),
        ("data.noise.path", {"noise": LabelFile(kind="file", path="own.csv")}),
    ],
)
def test_no_file_of_the_data_is_written_over(section, tmp_path, monkeypatch, field, setting):
    monkeypatch.chdir(tmp_path)
    check_apart("--out", tmp_path / "other.csv", section(**setting))
    with pytest.raises(ConfigError, match=rf"--out .*own.csv: that is the data itself \({field}\)"):
        check_apart("--out", tmp_path / "own.csv", section(**setting))
