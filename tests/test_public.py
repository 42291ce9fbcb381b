"""What ``import pencil`` offers, and what it must not import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pencil
import pencil.methods

pytestmark = pytest.mark.slow

PUBLIC = {
    "CosineSchedule",
    "CrossEntropy",
    "GivenLabels",
    "LabelErrors",
    "LabelLearner",
    "LearnedLabels",
    "LinearSchedule",
    "Pencil",
    "PencilError",
    "Phase",
    "PiecewiseSchedule",
    "Run",
    "RunConfig",
    "VerdictRule",
    "__version__",
    "example",
    "find_errors",
    "flip_certificates",
    "methods",
    "open_run",
    "prototype_start",
    "three_phases",
    "train",
}
WITH_EXTRAS = {"PencilClassifier"}
HEAVY = [
    *("PIL", "click", "fastapi", "lightning", "matplotlib", "mlflow", "pandas", "pyarrow"),
    *("rich", "sklearn", "tensorboard", "timm", "torchvision", "wandb"),
    *("torch.distributed.checkpoint", "torch.distributed.fsdp"),
]


def output_of(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_public_names_are_exactly_these():
    assert set(pencil.__all__) == PUBLIC
    assert len(pencil.__all__) == len(PUBLIC)


def test_dir_shows_the_public_names_alone_whatever_was_imported():
    import pencil.run  # an attribute of the package from here on

    assert dir(pencil) == sorted(PUBLIC | WITH_EXTRAS)


@pytest.mark.parametrize("name", sorted(PUBLIC | WITH_EXTRAS))
def test_every_public_name_is_there(name):
    assert getattr(pencil, name) is not None


def test_a_name_that_is_not_there_is_no_attribute():
    assert not hasattr(pencil, "Linear")
    with pytest.raises(ImportError, match="cannot import name 'importance'"):
        exec("from pencil import importance")


def test_a_star_import_gives_the_names_that_need_no_extra():
    namespace = {}
    exec("from pencil import *", namespace)
    assert set(namespace) - {"__builtins__"} == PUBLIC


def test_all_methods_are_in_methods():
    offered = {"CoTeaching", "CrossEntropy", "DivideMix", "EarlyLearning", "Forward", "JointOptimization"}
    offered |= {"GeneralizedCrossEntropy", "Pencil", "SparseOverParametrization", "SymmetricCrossEntropy"}
    assert offered <= set(pencil.methods.__all__)
    assert output_of("import pencil; print(pencil.methods.DivideMix().name)") == "dividemix"


def test_importing_the_package_and_looking_at_its_names_imports_no_torch():
    program = "import sys, pencil; dir(pencil); pencil.__all__; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert output_of(program) == "False False"


def test_help_of_the_command_imports_nothing_heavy():
    program = "import sys, pencil.cli.main; print(*sorted({'torch', 'numpy', 'pydantic', 'rich'} & set(sys.modules)))"
    assert output_of(program) == ""


def test_importing_all_of_the_library_imports_nothing_heavy_and_no_command_line():
    assert (
        output_of(f"import sys; from pencil import *; print(*sorted(set({HEAVY}) & set(sys.modules)))") == ""
    )


def test_the_estimator_without_scikit_learn_gives_the_pip_command():
    program = """
import sys
sys.modules["sklearn"] = None
import pencil
from pencil import *
assert "PencilClassifier" in dir(pencil)
try:
    pencil.PencilClassifier
except pencil.PencilError as error:
    print(type(error).__name__, error)
"""
    told = output_of(program)
    assert told.startswith("MissingExtraError sklearn is needed to use pencil as a scikit-learn estimator")
    assert "pip install 'pencil-labels[sklearn]'" in told


def test_type_checkers_see_every_name():
    """mypy would take a lazy name that is not declared for ``Any``; public_types.py has it check each."""
    tree = ast.parse(Path(pencil.__file__).read_text(encoding="utf-8"))
    declared = {
        alias.asname or alias.name
        for branch in tree.body
        if isinstance(branch, ast.If)
        for statement in branch.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert declared | {"__version__"} == set(dir(pencil))
    checked = ast.walk(ast.parse((Path(__file__).parent / "public_types.py").read_text(encoding="utf-8")))
    used = {
        node.attr
        for node in checked
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pencil"
    }
    assert used == set(dir(pencil))
