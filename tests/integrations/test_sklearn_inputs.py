"""Texts, data frames and sparse matrices in the estimator."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse

from pencil.integrations import sklearn_inputs
from pencil.integrations.sklearn import PencilClassifier
from pencil.integrations.sklearn_checks import InputError
from pencil.integrations.sklearn_inputs import WIDEST, narrowed

LABELS = np.array(["person", "place"] * 20)
TEXTS = [f"{start} number {row}" for row in range(20) for start in ("who was", "where is")]


def few():
    return PencilClassifier(epochs=(2, 6, 2), random_state=0)


def test_sparse_is_as_good_as_dense():
    dense = np.random.default_rng(0).normal(size=(40, 12)) * (np.arange(12) % 3 == 0)
    dense[::2, 0] += 3
    expected = few().fit(dense, LABELS).predict_proba(dense)
    for matrix in (sparse.csr_matrix(dense), sparse.coo_array(dense)):
        np.testing.assert_array_equal(few().fit(matrix, LABELS).predict_proba(matrix), expected)


def test_a_wide_sparse_matrix_is_hashed_and_said(monkeypatch):
    monkeypatch.setattr(sklearn_inputs, "WIDEST", 64)
    random = sparse.random(40, 1000, density=0.01, random_state=0, format="lil", dtype=np.float32)
    random[::2, 7] = 20
    random = random.tocsr()
    with pytest.warns(UserWarning, match="1,000 sparse columns are hashed to 64 features"):
        classifier = few().fit(random, LABELS)
    assert (classifier.predict(random) == LABELS).all()


def test_hashing_keeps_inner_products():
    random = sparse.random(40, 30_000, density=0.01, random_state=0, format="csr", dtype=np.float32)
    narrow = narrowed(random, warn=False)
    assert narrow.shape == (40, WIDEST)
    inner, kept = (random @ random.T).toarray(), (narrow @ narrow.T).toarray()
    assert np.corrcoef(inner.ravel(), kept.ravel())[0, 1] > 0.9


def test_texts_are_encoded():
    classifier = few().fit(TEXTS, LABELS)
    assert classifier.predict(np.array(["where is it", "who was she"])).tolist() == ["place", "person"]
    with pytest.raises(InputError, match="fit saw texts"):
        classifier.predict(np.zeros((2, 2048)))


def test_a_data_frame_with_categories_and_gaps():
    pandas = pytest.importorskip("pandas")
    town = ["Oslo", "Lima"] * 20
    age = np.where(np.arange(40) % 8 == 3, np.nan, 30.0 + np.arange(40) % 7)
    frame = pandas.DataFrame({"town": town, "age": age})
    classifier = few().fit(frame, LABELS)
    assert (classifier.predict(frame.iloc[::-1]) == LABELS[::-1]).all()
    with pytest.raises(InputError, match="X: no column 'age', which fit saw"):
        classifier.predict(frame[["town"]])


def test_a_hugging_face_data_set_is_a_frame():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"town": ["Oslo", "Lima"] * 20, "age": list(range(30, 70))})
    assert (few().fit(rows, LABELS).predict(rows) == LABELS).all()


def test_columns_that_are_not_used_are_said_once():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"town": ["Oslo", "Lima"] * 20, "note": TEXTS, "number": range(40), "one": 1})
    with pytest.warns(
        UserWarning,
        match=r"^X: 2 features: .*not used: note \(.+\), number \(row numbers\), one \(constant\);",
    ) as said:
        classifier = few().fit(frame, LABELS)
    assert said[0].filename == __file__
    classifier.predict(frame)


def test_two_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["Oslo", 3, 4], ["Lima", 5, 6]] * 20, columns=["town", "age", "age"])
    with pytest.raises(InputError, match="X: has more than one column 'age'; rename or remove all but one"):
        few().fit(frame, LABELS)


def test_a_frame_with_nothing_but_texts_is_refused_with_the_remedy():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"text": [f"every one of these {row} is different from {row + 1}" for row in range(40)]}
    )
    with pytest.raises(ValueError, match=r"no column has numbers or categories.*fit\(frame\['text'\], y\)"):
        few().fit(frame, [0, 1] * 20)


def test_a_nullable_column_may_have_gaps():
    pandas = pytest.importorskip("pandas")
    age = pandas.array([20, None, 40, 60] * 10, dtype="Int64")
    frame = pandas.DataFrame({"age": age, "town": ["Oslo", "Rome", "Oslo", "Rome"] * 10})
    classifier = few().fit(frame, [0, 1] * 20)
    assert len(classifier.predict(frame)) == 40
