"""Methods on one interface: PENCIL and its peers."""

from pencil.algorithm import Pencil
from pencil.methods.base import Guess, Look, Method, Mixing, RowSurveying, Surveying, Total
from pencil.methods.co_teaching import CoTeaching
from pencil.methods.cross_entropy import CrossEntropy
from pencil.methods.dividemix import DivideMix
from pencil.methods.early_learning import EarlyLearning
from pencil.methods.forward import Forward
from pencil.methods.generalized_cross_entropy import GeneralizedCrossEntropy
from pencil.methods.joint_optimization import JointOptimization
from pencil.methods.sparse_over_parametrization import SparseOverParametrization
from pencil.methods.symmetric_cross_entropy import SymmetricCrossEntropy

AnyMethod = (
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
    "AnyMethod",
    "CoTeaching",
    "CrossEntropy",
    "DivideMix",
    "EarlyLearning",
    "Forward",
    "GeneralizedCrossEntropy",
    "Guess",
    "JointOptimization",
    "Look",
    "Method",
    "Mixing",
    "Pencil",
    "RowSurveying",
    "SparseOverParametrization",
    "Surveying",
    "SymmetricCrossEntropy",
    "Total",
]
