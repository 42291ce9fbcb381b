"""Small problems to estimate, and fits on several ranks in threads."""

import threading

import torch


def batches(features, size=64):
    return lambda: ((at, features[at]) for at in torch.arange(len(features)).split(size))


def clusters(rows, classes, *, width=16, spread=0.7, seed=0):
    """Gaussian classes: features and true classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=generator)
    true = torch.randint(classes, (rows,), generator=generator)
    return centres[true] + spread * torch.randn(rows, width, generator=generator), true


def symmetric(true, classes, rate, seed=1):
    generator = torch.Generator().manual_seed(seed)
    flipped = torch.rand(len(true), generator=generator) < rate
    shift = torch.randint(1, classes, (len(true),), generator=generator)
    return torch.where(flipped, (true + shift) % classes, true)


def circular(true, classes, rate, seed=1):
    flipped = torch.rand(len(true), generator=torch.Generator().manual_seed(seed)) < rate
    return torch.where(flipped, (true + 1) % classes, true)


def on_ranks(parts, classes, fit):
    """Fit in a thread for each rank; the sum waits for all of them."""
    barrier, slots, found = (
        threading.Barrier(len(parts), timeout=60),
        [None] * len(parts),
        [None] * len(parts),
    )

    def work(rank):
        def total(values):
            slots[rank] = values
            barrier.wait()
            added = sum(slots[1:], slots[0].clone())
            barrier.wait()
            return added

        found[rank] = fit(batches(parts[rank][0]), parts[rank][1], classes, total=total)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
