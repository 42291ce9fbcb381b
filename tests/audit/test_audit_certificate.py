"""Certificates: recomputed from their own contents, and rejected whatever is altered."""

import json
from dataclasses import replace

import pytest

from pencil.audit import CertificateError, FrozenLabels, Wanted, answer, begin, verify, write_certificate
from pencil.audit.certificate import checksum
from pencil.run import LabelTable
from support.audits import true_label


@pytest.fixture
def certificate(run, labels, truth, tmp_path):
    audit = begin(run, labels, Wanted(looks=20, seed=5))
    done = answer(run, audit, labels, [(item.number, true_label(truth, item)) for item in audit.items], "ann")
    write_certificate(tmp_path / "c.json", done)
    return tmp_path / "c.json"


def test_a_certificate_verifies_alone_and_with_its_run(certificate, labels):
    alone, beside = verify(certificate), verify(certificate, lambda _: labels)
    assert alone == beside
    assert alone["statements"][0].startswith("of ")
    assert alone["plan"]["seed"] == 5


def paths(value, path=()):
    """The paths of all values in nested lists and dictionaries."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from paths(part, (*path, name))
    elif isinstance(value, list):
        for place, part in enumerate(value[:3]):
            yield from paths(part, (*path, place))
    else:
        yield path


def altered(value):
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def change(contents, path):
    """The contents with another value at a path."""
    copy = json.loads(json.dumps(contents))
    part = copy
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = altered(part[path[-1]])
    return copy


def test_every_altered_value_is_rejected(certificate):
    contents = json.loads(certificate.read_text())
    tried = 0
    for path in paths(contents):
        certificate.write_text(json.dumps(change(contents, path)))
        with pytest.raises(CertificateError, match="rejected"):
            verify(certificate)
        tried += 1
    assert tried > 80


NOT_RECOMPUTED = {
    "written_by",
    "run",
    "entry",
    "at",
    "auditor",
    "id",
    "row",
    "rule",
    "labels",
    "versions",
    "p_wrong",
    "choices",
}
"""What only the checksum, or a comparison with the run, protects."""


def test_a_forger_who_also_renews_the_checksum_is_found_by_recomputing(certificate, labels):
    contents = json.loads(certificate.read_text())
    for path in paths(contents):
        forged = change(contents, path)
        forged["checksum"] = checksum(forged)
        certificate.write_text(json.dumps(forged))
        if path == ("checksum",) or NOT_RECOMPUTED & set(path) or path[0] == "answers":
            continue
        if path[0] == "draws" and path[-1] == "confidence":
            continue  # does not matter for these statements; compared with the run below
        if path[-1] in ("mean_p_wrong", "relabel") and "mean_p_wrong" in path:
            continue
        with pytest.raises(CertificateError):
            verify(certificate)
    only_run = [
        ("plan", "run"),
        ("plan", "labels"),
        *(("draws", 0, "items", 0, name) for name in ("id", "row")),
    ]
    for path in (*only_run, ("draws", 0, "items", 1, "confidence")):
        forged = change(contents, path)
        forged["checksum"] = checksum(forged)
        certificate.write_text(json.dumps(forged))
        verify(certificate)  # the checksum is no signature
        with pytest.raises(CertificateError, match="rejected"):
            verify(certificate, lambda _: labels)


def test_another_answer_must_change_the_statement(certificate):
    contents = json.loads(certificate.read_text())
    items = contents["draws"][0]["items"]
    said = [answer["label"] for answer in contents["answers"]]
    right = next(i for i, item in enumerate(items) if item["again"] is None and said[i] == item["suggested"])
    contents["answers"][right]["label"] = items[right]["given"]
    contents["checksum"] = checksum(contents)
    certificate.write_text(json.dumps(contents))
    with pytest.raises(CertificateError, match="do not follow from its answers"):
        verify(certificate)


def test_another_rule_is_rejected(certificate, run):
    with pytest.raises(CertificateError, match="the verdict rule of the run is"):
        verify(certificate, lambda entry: FrozenLabels.of(LabelTable.open(run, 0.0, entry=entry)))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nothing", '{"format": NaN}', "[" * 100_000, '{"checksum": "\\ud800"}']
)
def test_other_files_are_rejected_in_one_line(tmp_path, text):
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(CertificateError, match=r"^[^\n]+$"):
        verify(file)


def test_a_certificate_of_another_run_is_rejected_even_if_its_labels_are_equal(certificate, labels):
    with pytest.raises(CertificateError, match="another run"):
        verify(certificate, lambda _: replace(labels, run="another"))


def test_parts_of_another_audit_are_rejected(certificate):
    for part in ("draws", "answers"):
        contents = json.loads(certificate.read_text())
        contents[part][0]["audit"] = "another"
        contents["checksum"] = checksum(contents)
        certificate.write_text(json.dumps(contents))
        with pytest.raises(CertificateError, match="parts of another audit"):
            verify(certificate)


def test_a_certificate_from_before_there_were_ids_is_verified(certificate, labels):
    contents = json.loads(certificate.read_text()) | {"format": "pencil audit certificate 1"}
    del contents["plan"]["id"], contents["plan"]["run"]
    for part in (*contents["draws"], *contents["answers"]):
        del part["audit"]
    contents["checksum"] = checksum(contents)
    certificate.write_text(json.dumps(contents))
    assert verify(certificate) == contents
    assert verify(certificate, lambda _: replace(labels, run="")) == contents


def test_a_certificate_of_a_later_format_is_rejected_by_its_name(certificate):
    contents = json.loads(certificate.read_text()) | {"format": "pencil audit certificate 3", "more": {}}
    certificate.write_text(json.dumps(contents))
    with pytest.raises(CertificateError, match="certificate 3"):
        verify(certificate)


def test_huge_counts_are_rejected_at_once(certificate):
    contents = json.loads(certificate.read_text())
    contents["draws"][0]["counts"]["relabel"] = 10**15
    contents["checksum"] = checksum(contents)
    certificate.write_text(json.dumps(contents))
    with pytest.raises(CertificateError, match="does not list the labels"):
        verify(certificate)


def forged(certificate, path, value):
    """The certificate with another value at a path, and a checksum that fits."""
    contents = json.loads(certificate.read_text())
    part = contents
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    contents["checksum"] = checksum(contents)
    certificate.write_text(json.dumps(contents))


def test_numbers_of_labels_are_compared_with_the_run(certificate, labels):
    forged(certificate, ("plan", "mean_p_wrong", "relabel"), 0.5)
    verify(certificate)  # alone it follows from its answers
    with pytest.raises(
        CertificateError, match="numbers of labels with each verdict are not those of the run"
    ):
        verify(certificate, lambda _: labels)


@pytest.mark.parametrize("count", [10**12, -1])
def test_a_draw_that_claims_more_labels_than_the_last_is_rejected_at_once(certificate, count):
    contents = json.loads(certificate.read_text())
    first = {**contents["draws"][0], "counts": {"relabel": count}, "items": []}
    forged(certificate, ("draws",), [first, *contents["draws"]])
    with pytest.raises(CertificateError, match="does not list the labels that were drawn"):
        verify(certificate)


def test_a_stratum_that_does_not_exist_is_rejected(certificate, labels):
    contents = json.loads(certificate.read_text())
    forged(certificate, ("plan", "sizes"), {**contents["plan"]["sizes"], "foo": 0})
    with pytest.raises(CertificateError, match="numbers of labels with each verdict are not those"):
        verify(certificate, lambda _: labels)
