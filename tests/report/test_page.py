"""The page: whole, self-contained, small for any number of rows, and deaf to hostile names."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import torch

from pencil.report import gather, write_page
from pencil.report.page import page
from pencil.run import RunDirectory

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "img", "input", "br", "wbr"}


class Outline(HTMLParser):
    """Elements with their attributes, text by element, and whether all that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self._open, self._broken = [], [], [], False
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._broken = tag == "wbr"
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._broken:
            tag, before = self.words.pop()
            self.words.append((tag, before + data))
        else:
            self.words.append((self._open[-1] if self._open else "", data))
        self._broken = False

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, *tags):
        return " ".join(data for tag, data in self.words if tag in tags)


@pytest.fixture(scope="module")
def hostile(hostile_run):
    return Outline(page(gather(RunDirectory.open(hostile_run))))


def test_hostile_names_and_ids_are_text(hostile):
    assert len(hostile.all("script")) == 1
    assert hostile.all("img") == []
    assert all(not name.startswith("on") for _, attributes in hostile.elements for name in attributes)
    shown = hostile.text("bdi")
    assert "<script>alert(1)</script>" in shown
    assert "<img src=x onerror=alert(" in shown
    assert "\\u202e\\u0007" in shown
    assert not re.search("[\x00-\x08\u202e]", shown)
    assert "<b>labels</b> may have drifted." in hostile.text("li")


def test_the_page_refers_to_nothing_outside_itself(hostile):
    for _, attributes in hostile.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert "url(" not in hostile.text("style").replace("url(#", "")
    assert "@import" not in hostile.text("style")
    policy = hostile.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_headings_go_down_one_at_a_time_and_ids_are_unique(hostile):
    levels = [int(tag[1]) for tag, _ in hostile.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(following <= level + 1 for level, following in pairwise(levels))
    ids = [attributes["id"] for _, attributes in hostile.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in hostile.all("a")]
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_every_table_and_chart_can_be_heard(hostile):
    assert len(hostile.all("caption")) == len(hostile.all("table")) > 5
    assert all(head["scope"] in ("row", "col") for head in hostile.all("th"))
    assert len(hostile.all("figcaption")) == len(hostile.all("figure")) == 6
    assert len(hostile.all("svg")) == 6
    assert hostile.text("summary").count("Data as a table") == 4  # the bar's legend tells its numbers


def test_images_are_within_the_page(image_run):
    outline = Outline(page(gather(RunDirectory.open(image_run), examples=5)))
    images = outline.all("img")
    assert images
    assert all(image["src"].startswith("data:image/png;base64,") for image in images)
    assert all(re.fullmatch(r"Example \w+/\d+\.png", image["alt"]) for image in images)


def test_two_pages_of_one_run_are_the_same_bytes(hostile_run):
    assert page(gather(RunDirectory.open(hostile_run))) == page(gather(RunDirectory.open(hostile_run)))


def test_many_classes_are_cut_and_told(make_run, tmp_path):
    classes, rows = 2000, 4000
    given = torch.arange(rows) % classes
    logits = torch.zeros(rows, classes).scatter_(1, ((given * 7 + 1) % classes)[:, None], 20.0)
    folder = make_run(tmp_path / "run", logits, given, store="top:8")
    text = page(gather(RunDirectory.open(folder), read_data=False))
    assert "The 500 of 2,000 classes with the most labels that seem wrong" in text
    assert "Only the 20 of 2,000 classes with the most changes are shown." in text
    assert len(text) < 1_000_000


def test_a_million_rows_make_a_page_of_less_than_five_megabytes(make_run, make_lines, tmp_path):
    rows, classes = 1_000_000, 10
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    given = torch.randint(classes, (rows,), generator=generator)
    long = [f"folder/{'x' * 40}/{row:07}.jpg" for row in range(rows)]
    lines = [line for line in make_lines(rows // 2) for _ in range(500)]
    lines = [line | {"epoch": epoch} for epoch, line in enumerate(lines, 1)]
    folder = make_run(tmp_path / "run", logits, given, ids=long, lines=lines)
    report = gather(RunDirectory.open(folder), examples=100, read_data=False)
    size = write_page(report, tmp_path / "report.html")
    assert report.counts.rows == rows
    assert report.counts.total_changed == int((logits.argmax(dim=1) != given).sum())
    assert size == (tmp_path / "report.html").stat().st_size < 1_000_000


def test_the_most_thumbnails_of_the_worst_images_fit_in_five_megabytes(
    make_run, random_rows, tmp_path, monkeypatch
):
    from pencil.data import TensorInputs
    from pencil.report import source

    logits, given = random_rows(1000, 5)
    folder = make_run(tmp_path / "run", logits, given)
    noise = torch.randint(256, (1000, 3, 120, 120), dtype=torch.uint8)

    def read(*_, **__):
        rows = _examples(noise, given)
        return type("Prepared", (), {"train": rows})

    def _examples(values, labels):
        from pencil.data import Examples
        from pencil.stores import GivenLabels

        names = tuple(f"class {index}" for index in range(5))
        ids = [f"row-{row}" for row in range(1000)]
        return Examples(TensorInputs(values), GivenLabels.of(labels, 5), names, ids)

    monkeypatch.setattr(source, "own_examples", read)
    report = gather(RunDirectory.open(folder), examples=100)
    assert sum(example.thumbnail is not None for example in report.corrections) > 50
    assert 1_000_000 < write_page(report, tmp_path / "report.html") < 5_000_000
