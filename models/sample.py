"""Cut the bundled 256-image test sample: `python models/sample.py DATA_FOLDER` (see `make models`)."""

import sys
from pathlib import Path

import numpy as np

SIZE, SEED = 256, 0


def main(data: Path) -> None:
    with np.load(data / "fashion_mnist_test.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    picked = np.sort(np.random.default_rng(SEED).choice(len(labels), SIZE, replace=False))
    target = Path(__file__).parent / "samples" / "fashion-test.npz"
    np.savez_compressed(target, images=images[picked], labels=labels[picked])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
