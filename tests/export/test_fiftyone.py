"""Samples as FiftyOne's documentation describes them; FiftyOne itself does not run here."""

from pencil.export.fiftyone import metadata, sample
from pencil.results import LabelRow


def test_a_sample_has_both_labels_and_its_verdict():
    made = sample(LabelRow("a/1.png", "cat", "cow", 0.93, 0.97, "relabel"), "/images/")
    assert made["filepath"] == "/images/a/1.png"
    assert made["tags"] == ["relabel"]
    assert made["pencil_id"] == "a/1.png"
    assert made["p_wrong"] == 0.97
    given, suggested = made["ground_truth"], made["pencil"]
    assert given["_cls"] == suggested["_cls"] == "Classification"
    assert (given["label"], given["confidence"]) == ("cat", None)
    assert (suggested["label"], suggested["confidence"]) == ("cow", 0.93)


def test_metadata_has_the_classes_and_no_version():
    """With a version FiftyOne would expect the documents of its database."""
    assert metadata(["cat", "cow"]) == {"media_type": "image", "info": {"classes": ["cat", "cow"]}}
