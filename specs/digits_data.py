"""Write scikit-learn's handwritten digits for the specs: ``python specs/digits_data.py FILE``.

1,797 pictures of 8 by 8 points; every fifth is for testing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def write(path: Path) -> None:
    """The pictures as float32 in 0 to 1, and their labels, mixed, as an ``.npz`` file."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pictures = (digits.data[order] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.float32)
    test = np.arange(len(labels)) % 5 == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        train=pictures[~test],
        train_labels=labels[~test],
        test=pictures[test],
        test_labels=labels[test],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    write(parser.parse_args().file)
