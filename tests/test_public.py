"""What ``import pencil`` offers, and what it must not drag in."""

import subprocess
import sys

import pytest

import pencil

PUBLIC = {
    "Cosine",
    "CrossEntropy",
    "GivenLabels",
    "LabelLearner",
    "LearnedLabels",
    "Linear",
    "Pencil",
    "PencilError",
    "Phase",
    "Piecewise",
    "__version__",
    "flip_certificates",
    "three_phases",
}
HEAVY = [
    *("PIL", "click", "fastapi", "lightning", "matplotlib", "mlflow", "pyarrow"),
    *("rich", "sklearn", "tensorboard", "timm", "torchvision", "wandb"),
    *("torch.distributed.checkpoint", "torch.distributed.fsdp"),
]


def test_the_public_names_are_exactly_these():
    assert set(pencil.__all__) == PUBLIC
    assert len(pencil.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name):
    assert getattr(pencil, name) is not None


def test_a_star_import_gives_the_public_names():
    namespace = {}
    exec("from pencil import *", namespace)
    assert set(namespace) - {"__builtins__"} == PUBLIC


def test_importing_all_of_the_library_imports_nothing_heavy_and_no_command_line():
    program = f"import sys; from pencil import *; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
