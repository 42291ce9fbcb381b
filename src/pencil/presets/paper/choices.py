"""What the paper leaves open or its program does otherwise, and what the presets do; one sentence each."""

from __future__ import annotations

REFERENCE = (
    "Compatibility loss: the authors' program's (reference), not the printed one, which but for ties lets no "
    "label flip at this κ."
)
NO_PULL = "Compatibility loss: α = 0 here, so the printed form and the program's are the same."
STRONG_PULL = (
    "κ = c α = {pull:g} is so strong that labels were not seen to flip with either form: docs/method.md."
)
ONE_OVER_C = "The network's loss keeps Eq. 9's 1/c, which the paper's learning rates assume."
MEAN = "Inputs lose the training set's mean only, as printed; the authors' CIFAR program divides by the deviation too."
LAST_PHASE = "The last phase's rate falls as printed; the program's integer division sets it to 0 after the first drop."
NOISY_VALIDATION = "The 10 % held out are noisy too, as printed of CIFAR-100; the program's are clean."
SYMMETRIC = (
    "Noise is drawn from all c labels, the true one among them, as printed: fewer than the rate are wrong."
)
LAMBDA_FALLS = "λ falls linearly from step to step of the correction phase; the program has no λ schedule."
LAMBDA_DROPS = (
    "λ drops after the fifth epoch of the correction phase, as printed; the program has no λ schedule."
)
WHOLE_BATCHES = (
    "Batches differ in size by at most one; the program's last one is smaller and moves its labels further."
)
PRECISION = (
    "Mixed precision (bf16) for speed; the paper does not specify it. --set train.precision=fp32 for none."
)
PRETRAINED = (
    "ImageNet weights: torchvision's IMAGENET1K_V1, those of the paper's year. Behind their first batch norm it "
    "matters little that inputs are not divided by a deviation."
)
TEST_CROP = "Test images are resized likewise and cropped in the centre; the paper does not specify it."
WORKERS = "Eight processes decode images ahead; they change no result."
