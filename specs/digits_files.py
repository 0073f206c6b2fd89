"""Makes the digits task: which digit is it, in an image of 8 x 8 pixels?

    python specs/digits_files.py FOLDER

writes scikit-learn's 1,797 images as libsvm files, whose features are the pixels in reading order::

    FOLDER/train/part-0.svm … part-7.svm     1,500 images
    FOLDER/test/part-0.svm                   297 images
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

TRAIN = 1500
TRAIN_FILES = 8
WHITE = 16.0  # the highest value of a pixel


def main(folder: Path) -> None:
    """Write the files; the same ones every time."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order] / WHITE, labels[order]
    for number, rows in enumerate(np.array_split(np.arange(TRAIN), TRAIN_FILES)):
        write(folder / "train" / f"part-{number}.svm", images[rows], labels[rows])
    write(folder / "test" / "part-0.svm", images[TRAIN:], labels[TRAIN:])


def write(path: Path, images: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    """One image a line; a pixel that is black is left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for image, label in zip(images, labels, strict=True):
        pixels = (f"{pixel}:{image[pixel]:g}" for pixel in np.flatnonzero(image))
        lines.append(" ".join([str(label), *pixels]))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
