"""How time and memory grow with the size of the input, with the batch and with the number of samples."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from attrcert import ATTRIBUTIONS
from attrcert.attributions.gradient import Hessian, gradient
from attrcert.loading.architectures import build
from benchmarks.grids import Grid
from benchmarks.peers import CHUNK, best_costs, by_attrcert, least_seconds
from benchmarks.subjects import Subject, bundled, convsmall, random_weights, resnet20

SIDES = (16, 32, 64, 112, 224)
BATCHES = (1, 4, 16, 64, 128)
RESNET = "torchvision:resnet18"
# a child's resource usage would begin with what its parent had, so it tells its own peak, in KiB, when it ends
PROGRAM = """
import atexit, re, sys
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr))
from attrcert.cli.app import main
main()
"""


def with_size() -> Grid:
    """xi_max of one network at several input sizes; the whole program's memory at each."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        weights = _checkpoint(Path(folder))
        for side in SIDES:
            subject = random_weights("resnet18", RESNET, side, 2, dense=0)
            f, x = subject.classifier, subject.images
            with f.prepared():
                J = ATTRIBUTIONS.make("saliency").explain(f, x, f(x).argmax(1)).jacobian
                J.matvec(torch.ones(J.shape[0], J.shape[2]))
                (found,) = best_costs((by_attrcert,), J, 2)
            _, peak = _program(weights, _images(Path(folder), side, 2), "--limit", "2", "--label-constraint", "off")
            each = 1e3 * found.each()
            rows.append((f"{side} x {side}", str(subject.d), f"{each:.0f}", f"{1e6 * found.each() / subject.d:.1f}",
                         f"{found.products / 2:.0f}", f"{found.outside:.0%}", f"{peak / 1e9:.2f}"))  # fmt: skip
    header = (
        "input",
        "d",
        "ms a sample",
        "us a sample and entry",
        "products",
        "outside products",
        "peak of the program, GB",
    )
    return Grid("Growth with the input", "resnet18, random weights, saliency, two samples.", header, rows)


def costs(shared: Path) -> Grid:
    """A Hessian product beside a forward pass and a gradient: what the time of any run is made of."""
    large = random_weights("resnet18, 224 x 224", RESNET, 224, 4, dense=0)
    subjects = (bundled(CHUNK), convsmall(shared, CHUNK), resnet20(shared, CHUNK), large)
    header = ("model", "d", "forward, ms", "gradient, ms", "product, ms", "product / gradient", "products a second")
    note = f"A sample, {CHUNK} together (224 x 224: 4)."
    return Grid("What a product costs", note, header, [_cost_row(subject) for subject in subjects])


def _cost_row(subject: Subject) -> tuple[str, ...]:
    f, x = subject.classifier, subject.images
    with f.prepared():
        y = f(x).argmax(1)
        H, v = Hessian(f, x, y), x.flatten(1)
        acts = (lambda: f(x), lambda: gradient(f, x, y), lambda: H.matvec(v))
        forward, slope, product = (1e3 * least_seconds(act, repeats=4) / len(x) for act in acts)
    ratio, rate = f"{product / slope:.1f}", f"{1e3 / product:.0f}"
    return subject.name, str(subject.d), f"{forward:.2f}", f"{slope:.2f}", f"{product:.2f}", ratio, rate


def with_batch(shared: Path) -> Grid:
    """xi_max in batches of several sizes."""
    rows = []
    subject = convsmall(shared, max(BATCHES))
    f = subject.classifier
    with f.prepared():
        for b in BATCHES:
            x = subject.images[:b]
            J = ATTRIBUTIONS.make("saliency", chunk=CHUNK).explain(f, x, f(x).argmax(1)).jacobian
            J.matvec(torch.ones(b, J.shape[2]))
            (found,) = best_costs((by_attrcert,), J, 5)
            rows.append((str(b), f"{1e3 * found.each():.1f}", f"{found.outside:.0%}"))
    header = ("samples at once", "ms a sample", "outside products")
    return Grid(
        "Growth with the batch", f"{subject.name}, saliency, {CHUNK} points differentiated together.", header, rows
    )


def with_samples() -> Grid:
    """The whole program on more and more samples."""
    rows = []
    for samples in (64, 128, 256):
        seconds, peak = _program("fashion-natural", "fashion-test", "--limit", str(samples))
        rows.append((str(samples), f"{seconds:.1f}", f"{1e3 * seconds / samples:.0f}", f"{peak / 1e9:.2f}"))
    header = ("samples", "seconds", "ms a sample", "peak of the program, GB")
    return Grid("Growth with the number of samples", "`attrcert bound`, start and checks included.", header, rows)


def _checkpoint(folder: Path) -> str:
    torch.manual_seed(0)
    path = folder / "resnet18.safetensors"
    save_file(build(RESNET, {}).state_dict(), path, metadata={"attrcert.arch": RESNET})
    return str(path)


def _images(folder: Path, side: int, count: int) -> str:
    path = folder / f"{side}.npz"
    pixels = np.random.default_rng(0).random((count, 3, side, side), dtype=np.float32)
    np.savez(path, images=pixels, labels=np.zeros(count, dtype=np.int64))
    return str(path)


def _program(*words: str) -> tuple[float, int]:
    """Seconds and peak memory of `attrcert bound` as a process of its own."""
    started = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "bound", *words, "--format", "csv", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 4):  # 4: some samples did not converge
        raise RuntimeError(f"attrcert bound {' '.join(words)} failed:\n{done.stderr}")
    return seconds, 1024 * int(done.stderr.split()[-1])
