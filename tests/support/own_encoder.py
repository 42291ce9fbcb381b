"""An encoder as a user would write it, as the text of a module that notes what it encodes."""

FILE = "colours.py"
NAME = "colours:encode"
SIZE = 6
MODULE = """
from pathlib import Path

import numpy as np

TRACE = Path(__file__).with_name("encoded")


def encode(images):
    with TRACE.open("a") as trace:
        trace.write("x" * len(images))
    pixels = [np.asarray(image.convert("RGB"), dtype=np.float32).reshape(-1, 3) / 255 for image in images]
    return np.stack([np.concatenate([each.mean(0), each.std(0)]) for each in pixels])


encode.size = 6
"""
