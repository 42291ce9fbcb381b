"""``pencil.find_errors``: what it takes, and what it refuses."""

import numpy as np
import pytest

import pencil
from pencil.errors import DataError

ROWS, CLASSES = 400, 3
WORDS = {
    "fruit": ["apple", "pear", "plum", "cherry", "ripe", "juice"],
    "tools": ["hammer", "nail", "saw", "drill", "wood", "screw"],
    "water": ["river", "lake", "boat", "fish", "wave", "rain"],
}


def clusters(*, rows=ROWS, seed=0, noise=0.15, width=6):
    """Features, true and given classes."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(CLASSES, width))
    centres *= 4 / np.linalg.norm(centres, axis=1, keepdims=True)
    truth = random.integers(CLASSES, size=rows)
    x = centres[truth] + random.normal(size=(rows, width))
    other = (truth + random.integers(1, CLASSES, size=rows)) % CLASSES
    return x, truth, np.where(random.random(rows) < noise, other, truth)


@pytest.fixture(scope="module")
def problem():
    return clusters()


@pytest.fixture(scope="module")
def errors(problem):
    return pencil.find_errors(problem[0], problem[2])


@pytest.fixture(scope="module")
def few(problem):
    x, _, given = problem
    x, given = x[:80].astype(np.float32), given[:80]
    return x, given, pencil.find_errors(x, given)


def found(errors, truth, given):
    """The share of wrong labels among as many rows as are wrong, in order."""
    wrong = truth != given
    return wrong[errors.order[: wrong.sum()]].mean()


def test_errors_of_arrays_are_found(problem, errors):
    _x, truth, given = problem
    assert found(errors, truth, given) > 0.9
    assert len(errors) == ROWS
    assert errors.noise.rate == pytest.approx(np.mean(truth != given), abs=0.05)
    assert np.mean(errors.labels() != truth) < 0.5 * np.mean(given != truth)
    assert np.mean(errors.labels("best") != truth) < 0.5 * np.mean(given != truth)
    assert errors.labels().dtype == given.dtype


def test_the_same_arrays_give_the_same_errors(few):
    x, given, errors = few
    before = x.copy(), given.copy()
    again = pencil.find_errors(x, given)
    assert np.array_equal(again.p_wrong, errors.p_wrong)
    assert np.array_equal(again.labels(), errors.labels())
    assert np.array_equal(x, before[0])
    assert np.array_equal(given, before[1])


@pytest.mark.parametrize("kind", ["lists", "sparse", "frame", "tensor", "column order", "names"])
def test_the_same_numbers_in_other_forms_give_the_same_errors(kind, few):
    x, given, expected = few
    features, labels = x, given
    if kind == "lists":
        features, labels = x.tolist(), given.tolist()
    elif kind == "sparse":
        features = pytest.importorskip("scipy.sparse").csr_matrix(x)
    elif kind == "frame":
        pandas = pytest.importorskip("pandas")
        features, labels = pandas.DataFrame(x), pandas.Series(given, index=range(1000, 1080))
    elif kind == "tensor":
        torch = pytest.importorskip("torch")
        features, labels = torch.from_numpy(x), torch.from_numpy(given)
    elif kind == "column order":
        features = np.asfortranarray(x)
    else:
        labels = np.array(["ant", "bee", "cow"])[given]
    other = pencil.find_errors(features, labels)
    assert np.array_equal(other.p_wrong, expected.p_wrong)
    assert np.array_equal(other.verdict, expected.verdict)


def test_whole_numbers_are_features_too():
    x, truth, given = clusters(rows=200, seed=3)
    assert found(pencil.find_errors(np.round(10 * x).astype(np.int16), given), truth, given) > 0.7


@pytest.mark.parametrize(
    "names",
    [
        np.array(["ant", "bee", "a long name"]),
        np.array(["ant", "bee", "cow"], dtype=object),
        np.array([5, 7, 2**40]),
        np.array([0.5, 1.5, -2.0]),
        np.array([3, 1, 2], dtype=np.uint8),
    ],
    ids=["texts", "objects", "numbers", "fractions", "bytes"],
)
def test_labels_keep_their_type(names):
    x, _, given = clusters(rows=100)
    labels = names[given]
    errors = pencil.find_errors(x, labels)
    for each in (errors.given, errors.suggested, errors.labels(), errors.labels("best"), errors.class_names):
        assert each.dtype == labels.dtype
        assert set(each.tolist()) <= set(names.tolist())
    assert errors.class_names.tolist() == sorted(names.tolist())
    assert np.array_equal(errors.given, labels)


def test_labels_may_be_true_or_false():
    x, _truth, given = clusters(rows=200)
    errors = pencil.find_errors(x, given == 0)
    assert errors.labels().dtype == bool
    row = int(errors.order[0])
    assert errors.answer([row], [not errors.given[row]]).labels()[row] != errors.given[row]


def texts(rows=200):
    random = np.random.default_rng(1)
    truth = np.array(sorted(WORDS))[random.integers(3, size=rows)]
    lines = [" ".join(random.choice(WORDS[name], 6)) for name in truth]
    given = np.where(random.random(rows) < 0.1, random.permutation(truth), truth)
    return lines, truth, given


@pytest.mark.parametrize("form", [list, np.array])
def test_errors_of_texts_are_found(form):
    lines, truth, given = texts()
    errors = pencil.find_errors(form(lines), given)
    assert found(errors, truth, given) > 0.7
    assert set(errors.suggested.tolist()) <= set(WORDS)


def test_errors_of_a_frame_with_categories_and_missing_values_are_found():
    pandas = pytest.importorskip("pandas")
    x, truth, given = clusters(rows=400, seed=2)
    frame = pandas.DataFrame(x, columns=list("abcdef"))
    frame.loc[::11, "b"] = np.nan
    frame["kind"] = np.array(["red", "green", "blue"])[(truth + (np.arange(400) % 4 == 0)) % 3]
    errors = pencil.find_errors(frame, pandas.Series(given))
    assert found(errors, truth, given) > 0.8


def probabilities(seed=5, rows=800):
    random = np.random.default_rng(seed)
    scores = 5 * random.normal(size=(rows, CLASSES))
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    truth = np.array([random.choice(CLASSES, p=each) for each in chances])
    other = (truth + random.integers(1, CLASSES, size=rows)) % CLASSES
    return chances, truth, np.where(random.random(rows) < 0.3, other, truth)


def test_errors_are_found_from_probabilities():
    chances, truth, given = probabilities()
    errors = pencil.find_errors(pred_probs=chances, labels=given)
    assert found(errors, truth, given) > 0.75
    assert errors.noise.rate == pytest.approx(0.3, abs=0.08)
    lists = pencil.find_errors(pred_probs=chances.tolist(), labels=given.tolist())
    assert np.allclose(lists.p_wrong, errors.p_wrong)


def test_columns_of_probabilities_belong_to_sorted_classes():
    chances, _, given = probabilities(rows=300)
    names = np.array(["b", "c", "a"])
    errors = pencil.find_errors(pred_probs=chances[:, [2, 0, 1]], labels=names[given])
    clear = chances.max(1) > 0.999
    assert clear.sum() > 50
    agrees = errors.suggested[clear] == names[chances.argmax(1)][clear]
    assert agrees.mean() > 0.95


def test_trusted_rows_are_kept(problem):
    x, truth, given = problem
    trusted = np.zeros(ROWS, dtype=bool)
    trusted[:100] = True
    labels = np.where(trusted, truth, given)
    labels[:5] = (truth[:5] + 1) % CLASSES  # even where features say another class
    errors = pencil.find_errors(x, labels, trusted=trusted)
    assert np.array_equal(errors.labels()[:100], labels[:100])
    assert not np.any(errors.verdict[:100] == "relabel")
    assert errors.p_wrong[5:100].max() < 0.5
    chances = np.full((ROWS, CLASSES), 0.02)
    chances[np.arange(ROWS), truth] = 0.96
    errors = pencil.find_errors(pred_probs=chances, labels=labels, trusted=trusted)
    assert not np.any(errors.verdict[:100] == "relabel")
    for mask in (trusted.tolist(), trusted.astype(int)):
        other = pencil.find_errors(pred_probs=chances, labels=labels, trusted=mask)
        assert np.array_equal(other.p_wrong, errors.p_wrong)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_larger_share_of_false_ones_replaces_more(seed):
    x, _, given = clusters(seed=seed)
    errors = pencil.find_errors(x + np.random.default_rng(9).normal(scale=1.5, size=x.shape), given)
    shares = [0.001, 0.005, 0.02, 0.05, 0.1, 0.2]
    replaced = [np.sum(errors.labels(max_false=share) != given) for share in shares]
    assert replaced == sorted(replaced)
    assert 0 == replaced[0] < replaced[-2] < replaced[-1]
    small = pencil.find_errors(x, given, max_false=0.005)
    assert np.array_equal(small.labels(), pencil.find_errors(x, given).labels(max_false=0.005))


def test_answers_help(problem, errors):
    _, truth, _given = problem
    rows = errors.ask(60)
    after = errors.answer(rows, truth[rows])
    assert np.array_equal(after.labels()[rows], truth[rows])
    assert np.mean(after.labels() != truth) <= np.mean(errors.labels() != truth)
    assert str(after) != str(errors)


@pytest.mark.parametrize("names", [np.array([0, 1]), np.array(["no", "yes"])])
def test_ten_rows_are_enough(names):
    x = np.random.default_rng(0).normal(size=(10, 2))
    labels = names[np.arange(10) % 2]
    errors = pencil.find_errors(x, labels)
    assert len(errors) == len(errors.labels()) == len(errors.ask(100)) == 10
    assert np.isfinite(errors.p_wrong).all()
    assert str(errors)
    assert errors._repr_html_()
    after = errors.answer(errors.ask(2), names[[0, 0]])
    assert len(after.labels("best")) == 10
    chances = np.full((10, 2), 0.5)
    assert len(pencil.find_errors(pred_probs=chances, labels=labels)) == 10


@pytest.mark.parametrize("x", [np.zeros((60, 3)), np.full((60, 1), 7.7), np.eye(60)])
def test_features_that_say_nothing_find_nothing(x):
    labels = np.random.default_rng(0).integers(2, size=60)
    errors = pencil.find_errors(x, labels)
    assert np.array_equal(errors.labels(), labels)
    assert errors.noise.rate is None


def test_a_class_with_one_row_is_kept():
    x, _, given = clusters(rows=200)
    given[7] = CLASSES
    errors = pencil.find_errors(x, given)
    assert errors.labels()[7] == CLASSES


X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 2
P = np.full((20, 2), 0.5)


def with_value(values, place, value):
    changed = np.array(values, dtype=float)
    changed[place] = value
    return changed


MISTAKES = {
    "nothing": (lambda: pencil.find_errors(), ["labels", "features", "pred_probs"]),
    "no labels": (lambda: pencil.find_errors(X), ["labels"]),
    "both": (lambda: pencil.find_errors(X, Y, pred_probs=P), ["features", "pred_probs"]),
    "neither": (lambda: pencil.find_errors(labels=Y), ["features", "pred_probs"]),
    "more rows": (lambda: pencil.find_errors(X, Y[:15]), ["features", "(20, 3)", "15"]),
    "fewer rows": (lambda: pencil.find_errors(X[:15], Y), ["features", "(15, 3)", "20"]),
    "one dimension": (lambda: pencil.find_errors(X[:, 0], Y), ["features", "(20,)", "20"]),
    "images": (lambda: pencil.find_errors(X.reshape(20, 3, 1), Y), ["features", "(20, 3, 1)"]),
    "no feature": (lambda: pencil.find_errors(X[:, :0], Y), ["features", "(20, 0)"]),
    "nan": (
        lambda: pencil.find_errors(with_value(X, (4, 1), np.nan), Y),
        ["features", "row 4", "finite", "fill"],
    ),
    "infinite": (
        lambda: pencil.find_errors(with_value(X, (6, 1), np.inf), Y),
        ["features", "row 6", "finite"],
    ),
    "dates": (lambda: pencil.find_errors(X.astype("datetime64[s]"), Y), ["features", "datetime", "numbers"]),
    "few": (lambda: pencil.find_errors(X[:9], Y[:9]), ["labels", "9", "10"]),
    "matrix of labels": (lambda: pencil.find_errors(X, P), ["labels", "(20, 2)"]),
    "one class": (lambda: pencil.find_errors(X, np.ones(20)), ["labels", "1 class", "two"]),
    "all different": (
        lambda: pencil.find_errors(X, np.arange(20)),
        ["labels", "20 classes", "20 rows", "repeat"],
    ),
    "missing": (lambda: pencil.find_errors(X, [*"ab" * 9, None, "a"]), ["labels", "row 18", "leave out"]),
    "missing number": (
        lambda: pencil.find_errors(X, with_value(Y, 3, np.nan)),
        ["labels", "row 3", "leave out"],
    ),
    "mixed objects": (
        lambda: pencil.find_errors(X, np.array([1, "a"] * 10, dtype=object)),
        ["labels", "numbers", "texts"],
    ),
    "mixed list": (lambda: pencil.find_errors(X, [1, "a"] * 10), ["labels", "numbers", "texts"]),
    "missing in texts": (lambda: pencil.find_errors(X, [*"ab" * 9, float("nan"), "a"]), ["labels", "row 18"]),
    "sums": (lambda: pencil.find_errors(pred_probs=0.9 * P, labels=Y), ["pred_probs", "add up to 1"]),
    "negative": (
        lambda: pencil.find_errors(pred_probs=with_value(P, 0, [-0.5, 1.5]), labels=Y),
        ["pred_probs"],
    ),
    "nan chance": (lambda: pencil.find_errors(pred_probs=with_value(P, (2, 1), np.nan), labels=Y), ["row 2"]),
    "width": (
        lambda: pencil.find_errors(pred_probs=np.full((20, 4), 0.25), labels=Y),
        ["(20, 4)", "(20, 2)"],
    ),
    "rows of chances": (
        lambda: pencil.find_errors(pred_probs=P[:8], labels=Y),
        ["pred_probs", "(8, 2)", "(20, 2)"],
    ),
    "short mask": (lambda: pencil.find_errors(X, Y, trusted=Y[:5] > 0), ["trusted", "(5,)", "(20,)"]),
    "numbers as mask": (
        lambda: pencil.find_errors(X, Y, trusted=np.arange(20)),
        ["trusted", "int64", "bool"],
    ),
    "texts as mask": (lambda: pencil.find_errors(X, Y, trusted=["yes"] * 20), ["trusted", "bool"]),
    "no share": (lambda: pencil.find_errors(X, Y, max_false=0), ["max_false", "0", "1"]),
    "too large a share": (lambda: pencil.find_errors(X, Y, max_false=1.5), ["max_false", "1.5", "between"]),
    "texts of wrong number": (lambda: pencil.find_errors(["some words"] * 15, Y), ["features", "15", "20"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_field_value_and_remedy(mistake):
    call, words = MISTAKES[mistake]
    with pytest.raises(DataError) as raised:
        call()
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("missing", ["NA", "NaT"])
def test_missing_labels_of_frames_are_named(missing):
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series([*"ab" * 9, getattr(pandas, missing), "a"], dtype=object)
    with pytest.raises(DataError, match="row 18"):
        pencil.find_errors(X, labels)
