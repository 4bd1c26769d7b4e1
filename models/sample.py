"""Cut the bundled samples, 256 test images and the wines that were held out: `python models/sample.py DATA_FOLDER` (see `make models`)."""

import sys
import tomllib
from pathlib import Path

import numpy as np
from train import split

SIZE, SEED = 256, 0


def main(data: Path) -> None:
    with np.load(data / "fashion_mnist_test.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    picked = np.sort(np.random.default_rng(SEED).choice(len(labels), SIZE, replace=False))
    samples = Path(__file__).parent / "samples"
    np.savez_compressed(samples / "fashion-test.npz", images=images[picked], labels=labels[picked])
    recipe = tomllib.loads((samples.parent / "wine" / "recipe.toml").read_text())["data"]
    _, (features, classes) = split(data / recipe["table"], held_out=recipe["held_out"])
    np.savez_compressed(samples / "wine-test.npz", features=features.numpy(), labels=classes.numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
