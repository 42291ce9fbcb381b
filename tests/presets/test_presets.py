"""Every preset, and the paper's against the paper: Table 1 and Sec. 4.2, typed in anew."""

import tomllib

import pytest

from pencil import LinearSchedule, Pencil, flip_certificates
from pencil.algorithm import moment_at, total_epochs, value_at
from pencil.config import RunConfig
from pencil.data import Augment, read_image_folder
from pencil.errors import ConfigError
from pencil.models import build_model
from pencil.presets import GROUPS, PRESETS, choices, describe, preset

DEFAULTS = ["features", "text", "table", "cifar10", "cifar100", "idx", "folder", "manifest", "shards"]

# noise, rate in %, learning rate, α, β, λ at the start, λ at the end
TABLE_1 = [
    ("symmetric", 10, 0.02, 0.1, 0.8, 200, 200),
    ("symmetric", 30, 0.03, 0.1, 0.8, 300, 300),
    ("symmetric", 50, 0.04, 0.1, 0.8, 400, 400),
    ("symmetric", 70, 0.08, 0.1, 0.8, 800, 800),
    ("symmetric", 90, 0.12, 0.1, 0.4, 1200, 1200),
    ("asymmetric", 10, 0.06, 0.1, 0.4, 600, 600),
    ("asymmetric", 20, 0.06, 0.1, 0.4, 600, 600),
    ("asymmetric", 30, 0.06, 0.1, 0.4, 600, 600),
    ("asymmetric", 40, 0.03, 0.0, 0.4, 3000, 0),
    ("asymmetric", 50, 0.03, 0.0, 0.4, 4000, 0),
]
CIFAR100_RATES = [("symmetric", (20, 40, 60, 80)), ("asymmetric", (10, 20, 30, 40))]
SEC_4_2 = [(kind, rate, 0.35, 0.1, 0.4, 10_000, 10_000) for kind, rates in CIFAR100_RATES for rate in rates]
EXPERIMENTS = [("cifar10", 10, *row) for row in TABLE_1] + [("cifar100", 100, *row) for row in SEC_4_2]
PAPER = [f"paper:{data}-{kind}-{rate}" for data, _, kind, rate, *_ in EXPERIMENTS]


# Table 5: λ, α; Sec. 4.2 has B = 16 and c = 200
TABLE_5 = [(1000, 0.0), (2000, 0.0), (3000, 0.0), (1000, 0.1), (2000, 0.1), (3000, 0.1)]
CUB200 = [f"paper:cub200-lambda{lambda_}-alpha{alpha:g}" for lambda_, alpha in TABLE_5]
CLOTHING1M = "paper:clothing1m"


def test_the_presets_are_these():
    assert set(PRESETS) == {*DEFAULTS, *PAPER, *CUB200, CLOTHING1M}
    assert [name for group in GROUPS.values() for name in group] == list(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_keeps_its_path(name):
    config = preset(name, "some/path")
    assert config.data.path == "some/path"
    assert RunConfig.of(config.table()) == config
    assert RunConfig.of(tomllib.loads(config.toml())) == config


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_is_for_the_kind_of_data_it_is_named_after(name):
    assert preset(name, "x").data.kind == name


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "idx", "folder", "manifest", "shards"])
def test_images_are_trained_at_their_own_size_by_the_fast_network(name):
    config = preset(name, "x")
    assert config.model.name == "fast"
    assert config.data.augment == Augment(pad=4, crop=None, flip=True)


@pytest.mark.parametrize(("side", "size"), [(20, 32), (50, 48), (70, 64), (200, 96)])
def test_the_size_is_chosen_from_the_images(tmp_path, side, size):
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        image.new("RGB", (side, side + 7)).save(tmp_path / "photos" / name / "1.png")
    (tmp_path / "table.csv").write_text("path,label\nphotos/cat/1.png,cat\nphotos/dog/1.png,dog\n")
    assert preset("folder", str(tmp_path / "photos")).data.size == size
    assert preset("manifest", str(tmp_path / "table.csv")).data.size == size


def test_a_missing_file_and_columns_of_other_names_do_not_change_the_size(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (70, 70)).save(tmp_path / "1.png")
    (tmp_path / "table.csv").write_text("path,label\n1.png,cat\n1.png,dog\nnowhere.png,cat\n")
    assert preset("manifest", str(tmp_path / "table.csv")).data.size == 64
    (tmp_path / "other.csv").write_text("photo,animal\n1.png,cat\n1.png,dog\n")
    columns = {"path": "photo", "label": "animal"}
    assert preset("manifest", str(tmp_path / "other.csv"), columns).data.size == 64


def test_choosing_the_size_warns_of_nothing(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for split in ("train", "val", "test"):
        (tmp_path / split / "cat").mkdir(parents=True)
        image.new("RGB", (70, 70)).save(tmp_path / split / "cat" / "1.png")
    assert preset("folder", str(tmp_path)).data.size == 64
    with pytest.warns(UserWarning, match="1 rows of val are left out"):
        read_image_folder(tmp_path)


def test_without_a_path_no_image_of_the_current_folder_is_read(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        image.new("RGB", (70, 70)).save(tmp_path / name / "1.png")
    monkeypatch.chdir(tmp_path)
    assert preset("folder", "").data.size == 32


def test_data_that_cannot_be_read_gets_the_smallest_size(tmp_path):
    (tmp_path / "table.csv").write_text("path,label\nnowhere.png,cat\n")
    assert preset("manifest", str(tmp_path / "table.csv")).data.size == 32
    assert preset("folder", str(tmp_path)).data.size == 32
    assert preset("shards", str(tmp_path / "nowhere")).data.size == 32


@pytest.mark.parametrize("name", DEFAULTS)
def test_under_a_default_no_certificate_forbids_flips(name):
    config = preset(name, "x")
    assert flip_certificates(config.method, config.phases) == []


@pytest.mark.parametrize(
    ("name", "classes", "shape"),
    [
        ("features", 7, (12,)),
        ("idx", 10, (1, 28, 28)),
        ("folder", 3, (3, 32, 32)),
        ("paper:cifar10-symmetric-10", 10, (3, 32, 32)),
        ("paper:cifar100-asymmetric-40", 100, (3, 32, 32)),
    ],
)
def test_a_presets_network_can_be_built(name, classes, shape):
    model = preset(name, "x").model
    build_model(model.name, num_classes=classes, input_shape=shape, args=model.args)


@pytest.mark.parametrize(
    ("data", "classes", "kind", "rate", "learning_rate", "alpha", "beta", "start", "end"),
    EXPERIMENTS,
    ids=PAPER,
)
def test_label_rate_and_pull_are_the_papers_in_knobs_without_units(
    data, classes, kind, rate, learning_rate, alpha, beta, start, end
):
    """η = λ / (B c) and κ = c α, with B = 128."""
    method = preset(f"paper:{data}-{kind}-{rate}", "x").method
    assert isinstance(method, Pencil)
    for epoch in (0, 65, 130):
        expected = (start + (end - start) * epoch / 130) / (128 * classes)
        assert value_at(method.label_rate, epoch, 130) == pytest.approx(expected, rel=1e-15)
    assert isinstance(method.label_rate, LinearSchedule) is (start != end)
    assert method.pull == pytest.approx(classes * alpha, rel=1e-15)
    assert method.entropy_weight == beta
    assert method.form == "reference"
    assert method.direction == "prediction_label"
    assert method.initial_gap == 10
    assert method.divide_by_classes


@pytest.mark.parametrize(
    ("name", "label_rate", "pull"),
    [
        ("paper:cifar10-symmetric-10", 0.15625, 1.0),
        ("paper:cifar10-symmetric-30", 0.234375, 1.0),
        ("paper:cifar10-symmetric-50", 0.3125, 1.0),
        ("paper:cifar10-symmetric-70", 0.625, 1.0),
        ("paper:cifar10-symmetric-90", 0.9375, 1.0),
        ("paper:cifar10-asymmetric-10", 0.46875, 1.0),
        ("paper:cifar10-asymmetric-20", 0.46875, 1.0),
        ("paper:cifar10-asymmetric-30", 0.46875, 1.0),
        ("paper:cifar10-asymmetric-40", LinearSchedule(2.34375, 0.0), 0.0),
        ("paper:cifar10-asymmetric-50", LinearSchedule(3.125, 0.0), 0.0),
        ("paper:cifar100-symmetric-20", 0.78125, 10.0),
        ("paper:cifar100-asymmetric-40", 0.78125, 10.0),
    ],
)
def test_label_rate_and_pull_in_figures(name, label_rate, pull):
    method = preset(name, "x").method
    assert (method.label_rate, method.pull) == (label_rate, pull)


@pytest.mark.parametrize(
    ("data", "kind", "rate", "learning_rate"),
    [(data, kind, rate, learning_rate) for data, _, kind, rate, learning_rate, *_ in EXPERIMENTS],
    ids=PAPER,
)
def test_the_papers_plan_and_learning_rates(data, kind, rate, learning_rate):
    phases = preset(f"paper:{data}-{kind}-{rate}", "x").phases
    assert [(phase.name, phase.epochs) for phase in phases] == [
        ("backbone", 70),
        ("correction", 130),
        ("finetune", 120),
    ]
    assert total_epochs(phases) == 320
    rates = [moment_at(phases, epoch).learning_rate for epoch in range(320)]
    assert rates == [learning_rate] * 200 + [0.2] * 40 + [0.02] * 40 + [0.002] * 40


@pytest.mark.parametrize(
    ("data", "kind", "rate"), [(data, kind, rate) for data, _, kind, rate, *_ in EXPERIMENTS], ids=PAPER
)
def test_the_papers_data_noise_network_and_optimiser(data, kind, rate):
    config = preset(f"paper:{data}-{kind}-{rate}", "x")
    asymmetric = "cifar10" if data == "cifar10" else "circular"
    assert config.data.kind == data
    assert config.data.noise.kind == ("symmetric" if kind == "symmetric" else asymmetric)
    assert config.data.noise.rate == rate / 100
    assert config.data.validation == 0.1
    assert config.data.normalize == "mean"
    assert config.data.augment == Augment(pad=4, crop=32, flip=True)
    assert config.model.name == ("preact_resnet32" if data == "cifar10" else "resnet34_cifar")
    optimizer = config.optimizer
    assert (optimizer.name, optimizer.momentum, optimizer.weight_decay) == ("sgd", 0.9, 1e-4)
    assert not optimizer.nesterov
    assert config.train.batch_size == 128


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_described_in_one_line(name):
    line = describe(name)
    assert line.endswith(".")
    assert "\n" not in line
    assert "partial(" not in line


# CUB-200 and Clothing1M (Sec. 4.2)


@pytest.mark.parametrize(("lambda_", "alpha"), TABLE_5, ids=CUB200)
def test_cub200_is_as_table_5_and_section_4_2_have_it(lambda_, alpha):
    config = preset(f"paper:cub200-lambda{lambda_}-alpha{alpha:g}", "x")
    assert config.method.label_rate == lambda_ / (16 * 200)
    assert config.method.pull == 200 * alpha
    assert (config.method.entropy_weight, config.method.form) == (0.8, "reference")
    assert [(phase.name, phase.epochs) for phase in config.phases] == [
        ("backbone", 35),
        ("correction", 65),
        ("finetune", 60),
    ]
    rates = [moment_at(config.phases, epoch).learning_rate for epoch in range(160)]
    assert rates == [2e-3] * 100 + [1e-3] * 20 + [1e-4] * 20 + [1e-5] * 20
    assert (config.train.batch_size, config.optimizer.weight_decay) == (16, 1e-4)
    assert (config.data.kind, config.data.noise, config.data.per_class) == ("cub200", None, None)


def test_cub200_label_rates_in_figures():
    """docs/method.md: 0.31 … 0.94, κ = 0 or 20."""
    methods = [preset(name, "x").method for name in CUB200]
    assert [(each.label_rate, each.pull) for each in methods] == [
        (0.3125, 0.0),
        (0.625, 0.0),
        (0.9375, 0.0),
        (0.3125, 20.0),
        (0.625, 20.0),
        (0.9375, 20.0),
    ]


def test_clothing1m_is_as_section_4_2_has_it():
    config = preset(CLOTHING1M, "x")
    method, correction = config.method, config.phases[1]
    rates = [value_at(method.label_rate, epoch, correction.epochs) for epoch in range(10)]
    assert rates == [3000 / (32 * 14)] * 5 + [500 / (32 * 14)] * 5
    assert (method.pull, method.entropy_weight, method.form) == (14 * 0.08, 0.8, "reference")
    assert [(phase.name, phase.epochs) for phase in config.phases] == [
        ("backbone", 5),
        ("correction", 10),
        ("finetune", 10),
    ]
    learning_rates = [moment_at(config.phases, epoch).learning_rate for epoch in range(25)]
    assert learning_rates == [1.6e-3] * 5 + [8e-4] * 10 + [5e-4] * 5 + [5e-5] * 5
    assert (config.train.batch_size, config.optimizer.weight_decay) == (32, 1e-3)
    assert config.data.kind == "clothing1m"
    assert 14 * config.data.per_class == pytest.approx(260_000, abs=14)


@pytest.mark.parametrize("name", [*CUB200, CLOTHING1M])
def test_photographs_are_prepared_as_section_4_2_says_and_the_network_is_pretrained(name):
    config = preset(name, "x")
    assert (config.data.size, config.data.normalize) == (256, "mean")
    assert config.data.augment == Augment(pad=0, crop=224, flip=True)
    assert (config.model.name, config.model.args) == ("torchvision:resnet50", {"weights": "IMAGENET1K_V1"})
    assert (config.optimizer.name, config.optimizer.momentum, config.optimizer.nesterov) == (
        "sgd",
        0.9,
        False,
    )
    assert config.method.divide_by_classes
    assert (config.method.initial_gap, config.method.direction) == (10, "prediction_label")


def test_descriptions_cite_the_table_they_are_a_cell_of():
    assert describe("features").startswith("A linear head on feature arrays")
    tables = {"cifar10-symmetric": 3, "cifar10-asymmetric": 4, "cifar100": 2, "cub200": 5, "clothing1m": 6}
    for start, table in tables.items():
        names = [name for name in PRESETS if name.startswith(f"paper:{start}")]
        assert names
        assert all(describe(name).startswith(f"Table {table}, PENCIL") for name in names)


@pytest.mark.parametrize("name", PRESETS)
def test_the_papers_presets_list_where_they_had_to_choose(name):
    found = choices(name)
    assert bool(found) is name.startswith("paper:")
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in found)
    if found:
        assert "1/c" in " ".join(found)
        alpha = preset(name, "x").method.pull > 0
        assert ("(reference), not the" in " ".join(found)) is alpha


def test_lambda_schedules_are_named_as_choices():
    told = {name for name in PRESETS if any("λ schedule" in sentence for sentence in choices(name))}
    scheduled = {
        name for name in PRESETS if not isinstance(getattr(preset(name, "x").method, "label_rate", 0), float)
    }
    assert told == scheduled == {"paper:cifar10-asymmetric-40", "paper:cifar10-asymmetric-50", CLOTHING1M}


@pytest.mark.parametrize(("name", "hint"), [("featurs", "; did you mean 'features'?"), ("zzz", "")])
def test_an_unknown_preset_is_told_the_nearest_and_where_to_look(name, hint):
    with pytest.raises(ConfigError) as caught:
        preset(name, "x")
    message = str(caught.value)
    assert message.startswith(f"--preset {name}: unknown{hint}")
    assert message.endswith("(list them with: pencil presets)")
    assert ("did you mean" in message) is bool(hint)
