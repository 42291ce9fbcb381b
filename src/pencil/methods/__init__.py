"""PENCIL and its peers. What a method is, and how to write one: ``pencil.algorithm.interface``."""

from pencil.algorithm import Guess, Method, Mixing, Pencil, Step, Survey
from pencil.methods.co_teaching import CoTeaching
from pencil.methods.cross_entropy import CrossEntropy
from pencil.methods.dividemix import DivideMix
from pencil.methods.early_learning import EarlyLearning
from pencil.methods.forward import Forward
from pencil.methods.generalized_cross_entropy import GeneralizedCrossEntropy
from pencil.methods.joint_optimization import JointOptimization
from pencil.methods.sparse_over_parametrization import SparseOverParametrization
from pencil.methods.symmetric_cross_entropy import SymmetricCrossEntropy

BuiltIn = (
    Pencil
    | CrossEntropy
    | GeneralizedCrossEntropy
    | SymmetricCrossEntropy
    | Forward
    | JointOptimization
    | EarlyLearning
    | SparseOverParametrization
    | CoTeaching
    | DivideMix
)

__all__ = [
    "BuiltIn",
    "CoTeaching",
    "CrossEntropy",
    "DivideMix",
    "EarlyLearning",
    "Forward",
    "GeneralizedCrossEntropy",
    "Guess",
    "JointOptimization",
    "Method",
    "Mixing",
    "Pencil",
    "SparseOverParametrization",
    "Step",
    "Survey",
    "SymmetricCrossEntropy",
]
