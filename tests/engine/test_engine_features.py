"""What a network says about the rows that were held out."""

from dataclasses import replace

import torch

from pencil.engine import held_out_scores
from pencil.stores import GivenLabels


def test_held_out_rows_with_a_verified_label_are_left_out(make_training, blobs):
    verified = torch.arange(len(blobs.test)) % 3 == 0
    labels = GivenLabels.of(blobs.test.labels.values, blobs.test.num_classes, verified)
    plain, mixed = (
        held_out_scores(make_training(blobs, validation=rows))
        for rows in (blobs.test, replace(blobs.test, labels=labels))
    )
    assert torch.equal(mixed[0], plain[0][~verified])
    assert torch.equal(mixed[1], plain[1][~verified])
