"""Tasks for Label Studio, and the choices that come back from it.

Exports here have the shape of Label Studio's own, cut to the fields that matter; ``test_label_studio_server`` takes one
from a server.
"""

import json
from xml.etree import ElementTree

import pytest

from pencil.errors import DataError
from pencil.export.label_studio import labeling_config, read_choices, task
from pencil.results import LabelRow

ROW = LabelRow("a/1.png", "cat", "cow & <calf>", 0.93, 0.97, "relabel")


def exported(name, *annotations):
    return {
        "id": 7,
        "data": {"image": f"http://host/{name}", "pencil_id": name},
        "annotations": list(annotations),
    }


def chose(*classes, cancelled=False, control="label"):
    choice = {
        "from_name": control,
        "to_name": "image",
        "type": "choices",
        "value": {"choices": list(classes)},
    }
    return {"id": 3, "completed_by": 1, "was_cancelled": cancelled, "result": [choice] if classes else []}


@pytest.mark.parametrize("shown", ["image", "text"])
def test_a_task_shows_the_example_and_predicts_the_suggested_label(shown):
    made = task(ROW, shown, "http://host/{}".format)
    assert made["data"] == {
        shown: "http://host/a/1.png",
        "pencil_id": "a/1.png",
        "given_label": "cat",
        "p_wrong": 0.97,
        "verdict": "relabel",
    }
    (prediction,) = made["predictions"]
    assert prediction["score"] == 0.93
    assert prediction["model_version"].startswith("pencil ")
    (result,) = prediction["result"]
    assert result == {
        "from_name": "label",
        "to_name": shown,
        "type": "choices",
        "value": {"choices": ["cow & <calf>"]},
    }


@pytest.mark.parametrize(("shown", "tag"), [("image", "Image"), ("text", "Text")])
def test_the_interface_has_the_names_that_tasks_use(shown, tag):
    names = ["cat", "cow & <calf>", "say \"moo\" 'now'", "żółć"]
    view = ElementTree.fromstring(labeling_config(names, shown))
    (example,), (control,) = view.findall(tag), view.findall("Choices")
    assert (example.get("name"), example.get("value")) == (shown, f"${shown}")
    result = task(ROW, shown, str)["predictions"][0]["result"][0]
    assert (control.get("name"), control.get("toName")) == (result["from_name"], result["to_name"])
    assert control.get("choice") == "single"
    assert [choice.get("value") for choice in control] == names


def test_choices_come_back_with_disputes_and_open_tasks_apart(tmp_path):
    tasks = [
        exported("one", chose("cat")),
        exported("agreed", chose("cow"), chose("cow")),
        exported("dispute", chose("cow"), chose("cat")),
        exported("twice", chose("cow")),
        exported("twice", chose("cow")),
        exported("skipped", chose("cat", cancelled=True)),
        exported("kept after a skip", chose("cat", cancelled=True), chose("cow")),
        exported("empty", chose()),
        exported("untouched"),
        exported("another question", chose("blurred", control="quality")),
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = read_choices(tmp_path / "export.json")
    assert found.labels == {"one": "cat", "agreed": "cow", "twice": "cow", "kept after a skip": "cow"}
    assert found.disputed == {"dispute": ("cat", "cow")}
    assert found.open == ("skipped", "empty", "untouched", "another question")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,label", "is not valid JSON .*; export the project as JSON"),
        ('{"tasks": []}', "contains no tasks with annotations; export the project as JSON"),
        ('[{"image": "a.png", "label": "cat"}]', r"no tasks with annotations; .*\(not JSON-MIN or CSV\)"),
        (
            '[{"annotations": [], "data": {"image": "a"}}]',
            "task 1: data.pencil_id is missing; .* written by pencil export",
        ),
    ],
    ids=["csv", "no list", "min", "stranger"],
)
def test_another_file_is_refused_with_the_remedy(tmp_path, text, words):
    (tmp_path / "export.json").write_text(text)
    with pytest.raises(DataError, match=words):
        read_choices(tmp_path / "export.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"absent.json: cannot be read"):
        read_choices(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "annotations",
    [
        "null",
        "[1]",
        '[{"result": 1}]',
        '[{"result": ["x"]}]',
        '[{"result": [{"type": "choices", "from_name": "label"}]}]',
        '[{"result": [{"type": "choices", "from_name": "label", "value": {"choices": "cat"}}]}]',
        '[{"result": [{"type": "choices", "from_name": "label", "value": {"choices": [1]}}]}]',
    ],
)
def test_annotations_of_another_form_are_refused_with_their_task(tmp_path, annotations):
    (tmp_path / "export.json").write_text(f'[{{"annotations": {annotations}, "data": {{"pencil_id": "a"}}}}]')
    with pytest.raises(DataError, match="task 1: the annotations are not in Label Studio's format; export"):
        read_choices(tmp_path / "export.json")
