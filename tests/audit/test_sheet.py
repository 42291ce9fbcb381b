"""The sample as a CSV: texts beside the choices, answers by name or letter, about the rows of this audit alone."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pencil.audit import Audit, Wanted, begin, read_sheet, sheet, texts_of, write_sheet
from pencil.audit.draw import looks
from pencil.audit.record import Draw, Item, Plan
from pencil.data import Beside, Record, Text
from pencil.errors import DataError
from pencil.escape import spreadsheet_cell
from pencil.identity import FORMAT
from pencil.run import own_examples


@pytest.fixture
def audit(run, labels):
    return begin(run, labels, Wanted(looks=10, seed=5))


@pytest.fixture
def with_texts(run, monkeypatch):
    """The data of the run, shown as texts and records."""
    examples = own_examples(run).train

    class Notes(type(examples.inputs)):
        def shown(self, index):
            return Text(f"=note {index}") if index % 2 else Record({"number": index, "place": "shelf"})

    notes = Notes(**vars(examples.inputs))
    shown = SimpleNamespace(train=replace(examples, inputs=notes))
    monkeypatch.setattr(sheet, "rows_to_show", lambda *_, **__: shown)
    return shown


def lines_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_texts_and_records_are_written(run, audit, with_texts, tmp_path):
    write_sheet(tmp_path / "s.csv", audit, texts_of(run))
    for line, item in zip(lines_of(tmp_path / "s.csv"), audit.items, strict=True):
        text = f"'=note {item.row}" if item.row % 2 else f"number: {item.row}\nplace: shelf"
        assert line["text"].replace("\\u000a", "\n") == text
    with_texts.train = replace(with_texts.train, ids=with_texts.train.ids[::-1])
    with pytest.raises(DataError, match="restore the data of the run"):
        write_sheet(tmp_path / "s.csv", audit, texts_of(run))


def test_plain_numbers_and_missing_data_have_no_texts(run, audit, tmp_path):
    assert texts_of(run) is None
    write_sheet(tmp_path / "s.csv", audit, None)
    assert "text" not in lines_of(tmp_path / "s.csv")[0]


def filled(path, audit, *answers, names=(), cells=None):
    """The sheet of an audit with these answers, and with other cells in columns."""
    write_sheet(path, audit, None, names)
    lines = [
        line | (cells or {}) | {"answer": said} for line, said in zip(lines_of(path), answers, strict=False)
    ]
    write_lines(path, lines)
    return path


def write_lines(path, lines, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(lines)


def test_answers_are_class_names_or_letters(audit, tmp_path):
    item, path = audit.items[0], filled(tmp_path / "s.csv", audit, "b", "C", "?")
    write_lines(path, lines_of(path), delimiter=";")
    assert list(read_sheet(path, audit, item.choices)) == [
        (1, item.choices[1]),
        (2, audit.items[1].choices[2]),
        (3, None),
    ]


@pytest.mark.parametrize("gone", ["look", "audit", "id", "a", "answer"])
def test_a_sheet_without_one_of_its_columns_is_refused(audit, tmp_path, gone):
    path = filled(tmp_path / "s.csv", audit, "b")
    write_lines(
        path, [{name: cell for name, cell in line.items() if name != gone} for line in lines_of(path)]
    )
    with pytest.raises(DataError, match="write the file anew"):
        list(read_sheet(path, audit, audit.items[0].choices))


@pytest.mark.parametrize("line", [{"look": 99}, {"audit": "2"}, {"audit": f"{FORMAT}-abc"}, {"id": "x"}])
def test_a_line_of_another_audit_is_refused(audit, tmp_path, line):
    with pytest.raises(DataError, match="line 2"):
        list(read_sheet(filled(tmp_path / "s.csv", audit, "b", cells=line), audit, audit.items[0].choices))


def test_a_sheet_of_a_newer_version_asks_for_an_upgrade(audit, tmp_path):
    path = filled(tmp_path / "s.csv", audit, "b", cells={"audit": f"{FORMAT + 1}-{audit.plan.id}"})
    with pytest.raises(DataError, match="upgrade"):
        list(read_sheet(path, audit, audit.items[0].choices))


def test_a_line_that_comes_twice_is_refused(audit, tmp_path):
    path = filled(tmp_path / "s.csv", audit, "b")
    write_lines(path, 2 * lines_of(path))
    with pytest.raises(DataError, match="line 3"):
        list(read_sheet(path, audit, audit.items[0].choices))


def test_an_audit_without_an_id_reads_its_sheets_of_then(audit, tmp_path):
    before = replace(audit, plan=audit.plan.model_copy(update={"id": ""}))
    path = filled(tmp_path / "s.csv", audit, "b")
    with pytest.raises(DataError, match="another audit"):
        list(read_sheet(path, before, audit.items[0].choices))
    lines = lines_of(filled(path, before, "b"))
    for kept in (lines, [{name: cell for name, cell in line.items() if name != "audit"} for line in lines]):
        write_lines(path, kept)
        assert list(read_sheet(path, before, audit.items[0].choices)) == [(1, audit.items[0].choices[1])]


NAMES = ["cat", "dog", "=cow", "+7"]
IDS = ("7", "007", "=1+1", "a\nb", " x", "x")


def of_anything(seed):
    """An audit of rows with odd ids, of which nothing was trained."""
    plan = Plan.model_construct(id=f"{seed:032x}", seed=seed, sizes={"relabel": 6}, what="relabels")
    drawn = looks(seed, plan.sizes, [plan.sizes])
    items = [
        Item.model_construct(
            **look._asdict(),
            row=look.place,
            id=IDS[look.place],
            choices=[*NAMES[look.place % 2 :], *NAMES][:3],
        )
        for look in drawn
    ]
    return Audit(plan, [Draw.model_construct(items=items)], [])


OTHERS = [of_anything(1), of_anything(2)]
PLACES = st.integers(0, 5)
EDITS = st.lists(
    st.tuples(st.sampled_from(["look", "audit", "id", "a", "b", "line"]), PLACES, PLACES), max_size=3
)


def edited(folder, edits, mixed):
    """The lines of a sheet after lines of another audit came in, and cells and lines were exchanged."""
    lines, others = [], []
    for audit, found in zip(OTHERS, (lines, others), strict=True):
        write_sheet(folder / "s.csv", audit, None, NAMES)
        found += lines_of(folder / "s.csv")
    for place in mixed:
        lines[place] = others[place]
    for column, one, other in edits:
        if column == "line":
            lines[one], lines[other] = lines[other], lines[one]
        else:
            lines[one][column], lines[other][column] = lines[other][column], lines[one][column]
    return lines


@given(EDITS, st.lists(st.sampled_from("abc?"), min_size=6, max_size=6), st.lists(PLACES, max_size=2))
def test_accepted_answers_are_about_the_row_that_their_line_shows(tmp_path_factory, edits, said, mixed):
    folder = tmp_path_factory.mktemp("sheet")
    lines, audit, done = edited(folder, edits, mixed), OTHERS[0], []
    lines = [line | {"answer": answer} for line, answer in zip(lines, said, strict=True)]
    write_lines(folder / "s.csv", lines)
    try:
        for look, label in read_sheet(folder / "s.csv", audit, NAMES):
            line, item = lines[len(done)], audit.items[look - 1]
            assert (int(line["look"]), line["audit"]) == (look, f"{FORMAT}-{audit.plan.id}")
            assert line["id"] == spreadsheet_cell(item.id)
            assert label is None if line["answer"] == "?" else spreadsheet_cell(label) == line[line["answer"]]
            done.append(look)
    except DataError:
        assert mixed or edits
    else:
        assert sorted(done) == [item.number for item in audit.items]


def test_a_letter_that_is_a_class_is_no_choice(audit, tmp_path):
    names, path = ["B", *audit.items[0].choices], tmp_path / "s.csv"
    write_sheet(path, audit, None, names)
    assert list(lines_of(path)[0]) == ["look", "audit", "id", *sheet.WORDS, "answer"]
    assert list(read_sheet(filled(path, audit, "B", names=names), audit, names)) == [(1, "B")]
    for said in ("b", "a"):
        filled(path, audit, said, names=names)
        with pytest.raises(DataError, match=rf"the answer '{said}' is no class.*; use a class name, or \?"):
            list(read_sheet(path, audit, names))
    write_sheet(path, audit, None)
    with pytest.raises(DataError, match="first choice is missing"):
        list(read_sheet(path, audit, names))


def test_a_class_called_like_no_answer_needs_the_page(audit, tmp_path):
    filled(tmp_path / "s.csv", audit, "?")
    with pytest.raises(
        DataError, match=r"\? is a class and also means that you cannot tell; answer with --page"
    ):
        list(read_sheet(tmp_path / "s.csv", audit, ["?", *audit.items[0].choices]))


def test_texts_beside_the_data_are_written(run, audit, tmp_path):
    rows = len(own_examples(run).source.train)
    (tmp_path / "texts.txt").write_text("".join(f"note {row}\n" for row in range(rows)))
    write_sheet(tmp_path / "s.csv", audit, texts_of(run, beside=Beside("texts", tmp_path / "texts.txt")))
    assert [line["text"] for line in lines_of(tmp_path / "s.csv")] == [
        f"note {item.id}" for item in audit.items
    ]


def test_ids_that_name_the_given_label_are_noticed(audit):
    assert not sheet.ids_name_labels(audit)
    (draw,) = audit.draws
    items = [item.model_copy(update={"id": f"photos/{item.given}/{item.row}.jpg"}) for item in draw.items]
    assert sheet.ids_name_labels(replace(audit, draws=[draw.model_copy(update={"items": items})]))
