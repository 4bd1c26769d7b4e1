"""Small runs of every command on the bundled models, and what they gave when that was last written down.

`python tests/golden_runs.py --write` writes it down anew. Do that where results are meant to change, and look at the difference.
"""

import csv
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image
from reference.program import attrcert

from attrcert.loading.bundled import samples
from attrcert.saved.manifests import read_manifest

FIXTURES = Path(__file__).parent / "fixtures" / "golden"
WRITE = "python tests/golden_runs.py --write"
CLASSES = ("top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
TIMES = ("seconds",)  # columns that differ from run to run
PICTURES = "PICTURES"  # in a run: a folder of some pictures of the bundled sample, in folders named like their classes
BOXES = "BOXES"  # a file of true boxes of the first of them
# in float64 where a run does not say otherwise
RUNS = {
    "bound-float32": "bound --limit 3 --eps 0.1,8/255 --dtype float32",
    "bound-l2": "bound --limit 3 --eps 0.1",
    "bound-linf": "bound fashion-adversarial --limit 1 --norm linf --eps 8/255 --linf-method scaled,corollary,row-sums",
    "bound-label": "bound --indices 0,100 --label-constraint tighten --eps 1",
    "bound-ig-ball": "bound --limit 1 --attribution ig --ig-steps 2 --ball --eps 0.5",
    "bound-folder": f"bound fashion-natural {PICTURES} --limit 3 --proved --proved-effort 0 --eps 0.01",
    "bound-sg-lp": "bound --limit 2 --attribution sg --noise-draws 3 --sigma 0.2 --norm lp --p 4",
    "bound-us-unit": "bound --limit 2 --attribution us --smooth-base ixg --smooth-unit --radius 0.5 --noise-draws 3 --target label",
    "bound-gaussian": "bound --smooth gaussian --limit 2 --sigma 0.2,0.4 --eps 0.01,0.05 --bounded clip:0.5 --samples 50",
    "bound-uniform": "bound --smooth uniform --limit 2 --radius 3 --min-cosine 0.6 --stop-when certified --rule tangent --samples 50",
    "bound-published": "bound --smooth uniform --limit 2 --rule published --bounded sample-max --confidence clt --samples 50",
    "attack": "attack --limit 1 --attack euclidean,manipulate --steps 2 --restarts 1 --random-draws 10 --eps 0.1 --ball",
    "attack-worst-linf": "attack --limit 1 --attack worst --steps 1 --random-draws 10 --restarts 0 --norm linf --eps 4/255 "
    "--transfer ig,sm",
    "attack-preset": "attack --limit 2 --preset ghorbani --steps 2 --restarts 0 --random-draws 0 --k 20",
    "attack-label": "attack --indices 0,100 --label-constraint compare --steps 1 --restarts 0 --random-draws 2 --eps 0.2",
    "attack-proved": "attack --limit 1 --attack cosine --keep kendall --steps 2 --restarts 0 --random-draws 10 --eps 0.01 "
    "--proved --proved-effort 0 --direction-beta 5:20",
    "attack-prediction": "attack --limit 2 --attack prediction --steps 3 --restarts 1 --eps 0.5 --transfer-from fashion-adversarial",
    "attack-smooth": "attack --smooth gaussian --limit 1 --sigma 0.2 --eps 0.05 --samples 50 --steps 2",
    "max-eps": "max-eps --limit 2 --max-angle 30 --max-deviation 0.5 --max-cosine-distance 0.1 --min-top-k 0.8",
    "max-eps-corrected": "max-eps --limit 2 --max-angle 30 --corrected --norm linf",
    "max-eps-uniform": "max-eps --smooth uniform --limit 2 --min-cosine 0.5,0.9 --radius best --samples 50",
    "max-eps-gaussian": "max-eps --smooth gaussian --limit 2 --sigma 0.1,0.3 --min-cosine 0.5 --samples 50",
    "min-radius": "min-radius --limit 2 --min-cosine 0.5,0.99 --eps 0.05 --samples 50",
    "min-radius-gaussian": "min-radius --smooth gaussian --limit 2 --radii 0.1,0.3 --search descend --min-cosine 0.5,0.7 --eps 0.02 "
    "--simultaneous --samples 50",
    "score": "score fashion-adversarial --limit 1 --metric insertion,deletion,adv-insertion,rps,crc,local-robustness,stability "
    "--norm l2 --eps 0.02 --proved --steps 2 --random-draws 2 --shares 4 --fill blur",
    "score-localisation": f"score --limit 2 --metric localisation --boxes {BOXES} --loc-threshold 0.1",
    "smooth": "smooth --smooth gaussian --limit 2 --sigma 0.2 --samples 50",
}


def outcome(name: str, folder: Path) -> list[dict[str, Any]]:
    """The identity of a run, if it has a manifest, and its rows as they are in its file."""
    made = {PICTURES: _pictures, BOXES: _boxes}
    words = [made[word](folder) if word in made else word for word in RUNS[name].split()]
    path = folder / ("maps.npz" if words[0] == "smooth" else "rows.csv")
    done = attrcert(*words, *(() if "--dtype" in words else ("--dtype", "float64")), "--out", path, "--quiet")
    assert done.code == 0, done.err
    if words[0] == "smooth":
        return [{}, *_maps(path)]
    with path.open(newline="") as stream:
        rows = [{key: cell for key, cell in row.items() if cell and key not in TIMES} for row in csv.DictReader(stream)]
    manifest = read_manifest(path)
    assert manifest is not None
    identity = {
        key: PICTURES if value == str(folder / PICTURES) else value for key, value in manifest["identity"].items()
    }
    return [identity, *rows]


def _pictures(folder: Path) -> str:
    """In a format whose files have the same size everywhere."""
    with np.load(samples()["fashion-test"]) as arrays:
        for index, (image, label) in enumerate(zip(arrays["images"][:6], arrays["labels"][:6], strict=True)):
            path = folder / PICTURES / CLASSES[label] / f"{index}.pgm"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0] if image.ndim == 3 else image).save(path)
    return str(folder / PICTURES)


def _boxes(folder: Path) -> str:
    """In COCO's form, by the place of the image."""
    path = folder / "boxes.json"
    boxes = [{"image_id": index, "bbox": [2 + index, 3, 20, 22]} for index in range(2)]
    path.write_text(json.dumps({"images": [{"id": index} for index in range(2)], "annotations": boxes}))
    return str(path)


def _maps(path: Path) -> list[dict[str, str]]:
    """A row per sample; an array's entries are told by its length and by a sum in which each has a weight of its own."""
    rows: list[dict[str, str]] = []
    with np.load(path) as arrays:
        for sample in range(len(arrays["index"])):
            told: dict[str, Any] = {}
            for key in arrays:
                entries = arrays[key][sample].ravel()
                if entries.size == 1:
                    told[key] = entries[0]
                else:
                    told[f"{key}_length"] = np.linalg.norm(entries.astype(np.float64))
                    told[f"{key}_sum"] = entries @ np.arange(1.0, entries.size + 1)
            rows.append({key: repr(value.item()) for key, value in told.items()})
    return rows


def fixture(name: str) -> Path:
    return FIXTURES / f"{name}.jsonl"


def written(name: str) -> list[dict[str, Any]]:
    """What the run gave: its identity, then its rows."""
    return [json.loads(line) for line in fixture(name).read_text().splitlines()]


def write() -> None:
    FIXTURES.mkdir(exist_ok=True)
    for name in RUNS:
        with TemporaryDirectory() as folder:
            lines = outcome(name, Path(folder))
        fixture(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"{__doc__}\nusage: {WRITE}")
    write()
