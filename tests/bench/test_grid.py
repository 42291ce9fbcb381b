"""A grid file: its cells, and its mistakes all at once."""

import re
import tomllib
from pathlib import Path

import pytest

from pencil.bench import Grid, read_results
from pencil.bench.results import key_of
from pencil.errors import ConfigError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(grid_file):
    return tomllib.loads(grid_file.read_text())


def test_every_combination_is_a_cell_of_its_own(table):
    cells = Grid.of(table).cells()
    assert [cell.key for cell in cells] == [
        ("points", noise, method, "default", seed)
        for noise in ("symmetric_40", "circular_20")
        for method in ("cross_entropy", "pencil")
        for seed in (0, 1)
    ]
    assert len({cell.config_hash for cell in cells}) == 8
    first, last = cells[0].config, cells[-1].config
    assert (first.method.name, first.seed, first.data.noise.rate) == ("cross_entropy", 0, 0.4)
    assert (last.method.name, last.seed, last.data.noise.kind) == ("pencil", 1, "circular")
    assert last.method.entropy_weight == 0.8  # the preset's own
    assert {cell.config.data.validation for cell in cells} == {0.1}


def test_ceilings_are_two_methods_more_and_clean_ones_are_alike_for_every_noise(table):
    cells = Grid.of({**table, "ceilings": True}).cells(["method=clean,oracle"], seeds=1)
    assert [(cell.noise, cell.method) for cell in cells] == [
        (noise, method) for noise in ("symmetric_40", "circular_20") for method in ("clean", "oracle")
    ]
    assert [cell.config.data.ceiling for cell in cells] == ["clean", "oracle"] * 2
    assert {cell.config.method.name for cell in cells} == {"cross_entropy"}
    assert cells[0].config_hash == cells[2].config_hash
    assert cells[1].config_hash != cells[3].config_hash


def test_a_variant_is_laid_over_the_methods_it_names(table):
    table["variant"] = [{"name": "slow", "methods": ["pencil"], "method": {"label_rate": 0.1}}]
    cells = Grid.of(table).cells(["noise=circular_20"], seeds=1)
    assert [(cell.method, cell.variant) for cell in cells] == [
        ("cross_entropy", "default"),
        ("pencil", "default"),
        ("pencil", "slow"),
    ]
    assert cells[2].config.method.label_rate == 0.1
    assert str(cells[2]) == "points circular_20 pencil/slow seed 0"


def test_the_hash_does_not_know_where_data_lies(table, monkeypatch):
    table["base"]["data"]["path"] = "${PLACE}/points.npz"
    hashes = []
    for place in ("/here", "/there"):
        monkeypatch.setenv("PLACE", place)
        cell = Grid.of(table).cells()[0]
        assert cell.config.data.path == f"{place}/points.npz"
        hashes.append(cell.config_hash)
    assert hashes[0] == hashes[1]


def test_the_hash_knows_what_was_chosen_and_not_what_is_a_default_anyway(table):
    plain = [cell.config_hash for cell in Grid.of(table).cells()]
    table["base"]["train"] = {**table["base"].get("train", {}), "device": "auto", "channels_last": False}
    assert [cell.config_hash for cell in Grid.of(table).cells()] == plain
    table["base"]["train"]["channels_last"] = True
    assert not set(plain) & {cell.config_hash for cell in Grid.of(table).cells()}


def test_the_hash_leaves_out_a_methods_defaults_and_keeps_the_kind_of_a_schedule(table):
    def hash_of(**settings):
        table["method"] = [{"name": "pencil", "method": settings}]
        return Grid.of(table).cells()[0].config_hash

    assert hash_of(pull=0.5) == hash_of(pull=0.5, balance=0.0) != hash_of(pull=0.5, balance=1.0)
    schedules = [{"kind": kind, "start": 1.0, "end": 0.0} for kind in ("linear", "cosine")]
    assert len({hash_of(label_rate=schedule) for schedule in schedules}) == 2


def test_methods_with_nothing_but_defaults_are_told_apart(table):
    table["method"] = [{"name": name} for name in ("cross_entropy", "early_learning", "forward", "pencil")]
    cells = Grid.of(table).cells(["noise=circular_20"], seeds=1)
    assert len({cell.config_hash for cell in cells}) == 4


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["pencil"], "--only 'pencil': write it as data, noise, method or variant=NAME,NAME"),
        (
            ["method=pensil"],
            "--only 'method=pensil': the grid has no method 'pensil'; did you mean 'pencil'?",
        ),
        (
            ["noise=none"],
            "--only 'noise=none': the grid has no noise 'none'; known: symmetric_40, circular_20",
        ),
        (["method=cross_entropy", "variant=gentle"], "no cell of the grid is left"),
    ],
)
def test_a_filter_that_fits_nothing_is_named(table, only, message):
    table["variant"] = [{"name": "gentle", "methods": ["pencil"]}]
    with pytest.raises(ConfigError, match=re.escape(message)):
        Grid.of(table).cells(only)


def test_a_repeated_filter_adds_names(table):
    repeated = ["method=pencil", "method=cross_entropy", "noise=circular_20"]
    at_once = ["method=pencil,cross_entropy", "noise=circular_20"]
    assert [cell.key for cell in Grid.of(table).cells(repeated)] == [
        cell.key for cell in Grid.of(table).cells(at_once)
    ]


def test_more_seeds_than_anybody_means_are_refused(table):
    with pytest.raises(ConfigError, match="seeds: 2147483647 must be how many, from 1 to 10,000"):
        Grid.of({**table, "seeds": 2147483647})


@pytest.mark.parametrize("seeds", [0, 3])
def test_seeds_that_the_grid_does_not_have_are_refused(table, seeds):
    remedy = f"write seeds = {seeds} there, or --seeds {seeds}, with a comma for this seed alone"
    with pytest.raises(ConfigError, match=f"--seeds {seeds}: the grid has 2; {remedy}"):
        Grid.of(table).cells(seeds=seeds)


def test_all_mistakes_of_the_file_are_told_at_once(table):
    wrong = {
        **table,
        "sedes": 3,
        "seeds": [1, 1],
        "validation": 2,
        "ceilings": "yes",
        "base": {"preset": "feature"},
        "noise": [],
        "method": [{"name": "pencil"}, {"name": "pencil"}, {"name": "a=b"}, {}],
        "variant": [{"name": "default"}, {"name": "v", "methods": ["pensil"]}],
    }
    with pytest.raises(ConfigError) as caught:
        Grid.of(wrong, "g.toml")
    assert str(caught.value).splitlines() == [
        "g.toml: 11 mistakes:",
        "  sedes: unknown; did you mean 'seeds'?",
        "  seeds: [1, 1] must be how many, from 1 to 10,000, or a list of different whole numbers",
        "  validation: 2 must be a share of the training rows, at least 0 and below 1",
        "  ceilings: 'yes' must be true or false",
        "  base.preset: 'feature' is unknown; did you mean 'features'?",
        "  noise: missing; add at least one table [[noise]] with a name",
        "  method.1.name: 'pencil' is taken; choose another",
        "  method.2.name: 'a=b' must be a word of letters, digits and _ . + -",
        "  method.3.name: None must be a word of letters, digits and _ . + -",
        "  variant.0.name: 'default' is taken; choose another",
        "  variant.v.methods: no method 'pensil'; did you mean 'pencil'?",
    ]


def test_all_mistakes_of_the_settings_are_told_once_with_the_first_cell(table):
    table["noise"][1]["data"]["noise"]["rate"] = 2.0
    table["method"][1]["method"] = {"labelrate": 1.0}
    table["base"]["data"]["path"] = "${NO_SUCH_PLACE}"
    table["method"].append({"name": "pensil"})
    table["noise"][0]["methods"] = ["pencil"]
    with pytest.raises(ConfigError) as caught:
        Grid.of(table)
    lines = str(caught.value).splitlines()
    assert lines[0] == "grid: 5 mistakes:"
    assert lines[1] == (
        "  data.path: ${NO_SUCH_PLACE} is not set; export NO_SUCH_PLACE=..., or write the value "
        "(in points symmetric_40 cross_entropy)"
    )
    assert lines[2].startswith("  methods: unknown setting")
    assert lines[3].startswith("  method.labelrate: unknown setting; did you mean 'label_rate'?")
    assert lines[3].endswith("(in points symmetric_40 pencil)")
    assert lines[4].startswith("  method.name: 'pensil' is unknown; did you mean 'pencil'?")
    assert lines[5].startswith("  data.noise.rate: 2.0 ")
    assert lines[5].endswith("(in points circular_20 cross_entropy)")


@pytest.mark.parametrize("value", ["words", 3, [1], {"a": 1}, [{"name": 3}], None, True])
@pytest.mark.parametrize("field", ["seeds", "base", "data", "noise", "method", "variant"])
def test_whatever_stands_there_ends_in_a_message(table, field, value):
    if (field, value) in (("seeds", 3), ("seeds", [1])):
        assert Grid.of({**table, field: value}).seeds == ([0, 1, 2] if value == 3 else [1])
        return
    with pytest.raises(
        ConfigError, match=field if (field, value) != ("base", {"a": 1}) else "a: unknown setting"
    ):
        Grid.of({**table, field: value})


GRIDS = sorted((ROOT / "benchmarks" / "grids").glob("*.toml"))
RESULTS = {file.stem: file for file in (ROOT / "benchmarks" / "results" / "comparison").glob("*_*.jsonl")}


def test_every_committed_result_has_a_grid():
    assert set(RESULTS) <= {path.stem for path in GRIDS}


@pytest.mark.no_cover
@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_committed_grids_are_right_and_their_results_have_their_settings(path, monkeypatch):
    for name in ("PENCIL_DATA", "CIFAR10_FEATURES", "CIFAR10"):
        monkeypatch.setenv(name, "/data")
    cells = Grid.read(path).cells()
    assert len({cell.key for cell in cells}) == len(cells) >= 20
    co_teaching = [cell for cell in cells if cell.method == "co_teaching"]
    assert all(cell.config.method.forget_rate == cell.config.data.noise.rate for cell in co_teaching)
    lines = read_results(RESULTS[path.stem]) if path.stem in RESULTS else []
    wanted = {cell.key: cell.config_hash for cell in cells}
    assert {key_of(line): line["config_hash"] for line in lines}.items() <= wanted.items()
    assert lines or path.stem not in RESULTS


def test_seeds_may_be_named_or_counted(table):
    grid = Grid.of(table | {"seeds": 3})
    assert {cell.seed for cell in grid.cells(seeds=2)} == {0, 1}
    assert {cell.seed for cell in grid.cells(seeds=[7, 9])} == {7, 9}
