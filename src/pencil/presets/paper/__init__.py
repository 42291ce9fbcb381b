"""The experiments of Yi & Wu, CVPR 2019, in the library's knobs, by the data set they are on."""

from __future__ import annotations

from collections.abc import Mapping

from pencil.presets.experiment import Experiment
from pencil.presets.paper import cifar, clothing1m, cub200

GROUPS: Mapping[str, Mapping[str, Experiment]] = {
    "the paper's CIFAR-10 (Tables 1, 3 and 4)": cifar.CIFAR10,
    "the paper's CIFAR-100 (Sec. 4.2, Table 2)": cifar.CIFAR100,
    "the paper's CUB-200 (Sec. 4.2, Table 5)": cub200.PRESETS,
    "the paper's Clothing1M (Sec. 4.2, Table 6)": clothing1m.PRESETS,
}
PRESETS = {name: experiment for group in GROUPS.values() for name, experiment in group.items()}

__all__ = ["GROUPS", "PRESETS"]
