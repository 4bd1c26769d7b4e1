"""Localisation: boxes agree as their pixels do, move with their pixels, and lead to the figures that can be counted by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import Done, attrcert
from torch import nn

from attrcert.errors import DataError, SampleError
from attrcert.geometry.boxes import agreement, iou, largest, unit
from attrcert.loading.boxes import true_boxes
from attrcert.loading.datasets import load_data
from attrcert.loading.frames import frame_of
from attrcert.loading.image_folders import FolderImages
from attrcert.loading.preparing import PreparedImages
from attrcert.reporting.summaries.localised import hit_at
from attrcert.scores.localisation import processed
from attrcert.settings.sources import DEFAULT_MAX_INPUT, DataSpec


def covered(box, size: int = 12) -> set:
    x0, y0, x1, y1 = box
    return {(x, y) for x in range(size) for y in range(size) if x0 <= x < x1 and y0 <= y < y1}


def test_iou_is_that_of_the_pixels():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.integers(0, 12, (2, 40, 2, 2)), axis=2)
    a, b = corners.transpose(0, 1, 3, 2).swapaxes(2, 3).reshape(2, 40, 4).astype(float)
    found = iou(a, b)
    for i in range(40):
        for j in range(40):
            one, other = covered(a[i]), covered(b[j])
            assert found[i, j] == pytest.approx(len(one & other) / max(1, len(one | other)))


def test_boxes_that_do_not_meet_have_no_iou_though_both_sides_of_what_is_between_them_are_negative():
    assert iou(np.array([[0.0, 0, 2, 2]]), np.array([[8.0, 8, 10, 10], [0, 8, 2, 10], [2, 0, 4, 2]])).tolist() == [
        [0, 0, 0]
    ]


def slow_parts(mask: np.ndarray) -> list[set]:
    """Connected parts, over corners too, in the order of their first pixel."""
    left, found = {tuple(place) for place in np.argwhere(mask)}, []
    for start in sorted(left):
        if start in left:
            part, todo = set(), [start]
            while todo:
                y, x = todo.pop()
                if (y, x) in left:
                    left.remove((y, x))
                    part.add((y, x))
                    todo += [(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            found.append(part)
    return found


def slow_box(part: set) -> list[float]:
    ys, xs = zip(*part, strict=True)
    return [min(xs), min(ys), max(xs) + 1, max(ys) + 1]


@pytest.mark.parametrize("seed", range(4))
def test_agreement_is_what_a_search_at_every_threshold_finds(seed):
    rng = np.random.default_rng(seed)
    h = unit(rng.random((12, 12)) * np.hanning(14)[1:-1, None] ** seed)
    truths = np.array([[2.0, 3, 8, 9], [6, 1, 11, 4]])
    of_largest, of_any = agreement(h, truths, 40, 0.3)
    for i in range(40):
        parts = slow_parts(h > i / 40)
        each = [max(iou(np.array([slow_box(part)], float), truths)[0]) for part in parts]
        biggest = each[max(range(len(parts)), key=lambda place: (len(parts[place]), -place))]
        for found, expected in ((of_largest[i], biggest), (of_any[i], max(each))):
            assert found == pytest.approx(expected) or (found == 0 and expected < 0.3)
        assert largest(h, i / 40)[0].tolist() == slow_box(max(parts, key=len))
    assert (of_any >= 0.3).any()


def test_the_papers_map_is_made_step_by_step():
    h = np.random.default_rng(0).random((9, 11)) ** 4
    z = (h - h.mean()) / h.std()
    z = np.clip(z, *np.percentile(z, [2, 98]))
    padded = np.pad(z, 1, mode="symmetric")
    mean = sum(padded[i : i + 9, j : j + 11] for i in range(3) for j in range(3)) / 9
    weights = np.exp(-(np.arange(-12, 13) ** 2) / 18.0)
    weights /= weights.sum()
    padded = np.pad(mean, 12, mode="symmetric")
    expected = sum(weights[i] * weights[j] * padded[i : i + 9, j : j + 11] for i in range(25) for j in range(25))
    np.testing.assert_allclose(processed(h), expected, atol=1e-12)
    assert not processed(np.ones((4, 4))).any()


# boxes move with their pixels

SIZES = [(40, 60), (61, 37)]
CHANGES = [{"resize": 30}, {"resize": (24, 50)}, {"crop": 33}, {"resize": 48, "crop": 40}, {"crop": 72}, {}]


def bright(image: torch.Tensor) -> list[float]:
    rows, columns = (image.amax(dim=axis) > 0.5 for axis in ((0, 2), (0, 1)))
    ys, xs = rows.nonzero()[:, 0], columns.nonzero()[:, 0]
    return [xs.min().item(), ys.min().item(), xs.max().item() + 1, ys.max().item() + 1]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[Path, list[list[float]]]:
    """A folder of black pictures with a white rectangle each."""
    folder, boxes = tmp_path_factory.mktemp("pictures"), []
    for i, (height, width) in enumerate(SIZES):
        pixels, box = np.zeros((height, width), np.uint8), [12 + i, 15, 30, 33]
        pixels[box[1] : box[3], box[0] : box[2]] = 255
        (folder / "a").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / "a" / f"{i}.png")
        boxes.append(list(map(float, box)))
    return folder, boxes


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_boxes_move_with_their_pixels(pictures, change):
    folder, boxes = pictures
    data = load_data(DataSpec(str(folder), channels=1, **change))
    for index, box in enumerate(boxes):
        image = data.images[index][0]
        frame = frame_of(data.images, index)
        assert frame.size == tuple(image.shape[1:])
        assert frame.original == SIZES[index]
        np.testing.assert_allclose(frame.moved(np.array([box]))[0], bright(image), atol=0.75)


@pytest.mark.parametrize("squashed", [True, False])
def test_boxes_move_with_pixels_that_are_prepared_as_a_library_does(pictures, squashed):
    folder, boxes = pictures
    paths = tuple(sorted((folder / "a").iterdir()))
    images = PreparedImages(FolderImages(paths, (0, 0), "L"), 44, 38, "bicubic", squashed)
    for index, box in enumerate(boxes):
        moved = frame_of(images, index).moved(np.array([box]))[0]
        np.testing.assert_allclose(moved, bright(images[index][0]), atol=0.75)


# files and names


def coco(path: Path, boxes: dict, **sizes) -> Path:
    """Boxes x, y, width, height by the name of an image; an image's id is its place."""
    images = [{"id": i, "file_name": name, **sizes} for i, name in enumerate(boxes)]
    annotations = [{"image_id": i, "bbox": box} for i, own in enumerate(boxes.values()) for box in own]
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    return path


def matched(path: Path, images, sources):
    return true_boxes(path, images, sources, range(len(images)), DEFAULT_MAX_INPUT)


@pytest.mark.parametrize("names", [("a/0.png", "a/1.png"), ("0.png", "1.png"), ("data/val/a/0.png", "val/a/1.png")])
def test_images_are_told_by_the_ends_of_their_names(pictures, tmp_path, names):
    data = load_data(DataSpec(str(pictures[0]), channels=1))
    boxes = {names[1]: [[1, 2, 3, 4], [5, 6, 1, 1]], names[0]: [[12, 15, 10, 20]], "elsewhere/0.jpg": [[0, 0, 1, 1]]}
    found = matched(coco(tmp_path / "x.json", boxes), data.images, data.sources)
    assert found(1).tolist() == [[1, 2, 4, 6], [5, 6, 6, 7]]
    assert found(0).tolist() == [[12, 15, 22, 35]]
    assert "1 of 3, elsewhere/0.jpg" in found.absent


NAMED_TWICE = [("0.png",), ("a/0.png", "x/a/0.png")]


def test_a_name_that_could_be_two_images_is_refused(tmp_path):
    images = torch.zeros(2, 1, 4, 4)
    data = load_data(DataSpec((images, None)))
    one, both = (
        coco(tmp_path / f"{len(names)}.json", {name: [[0, 0, 2, 2]] for name in names}) for names in NAMED_TWICE
    )
    with pytest.raises(DataError, match=r"0.png could be a/0.png, b/0.png"):
        matched(one, data.images, ("a/0.png", "b/0.png"))
    with pytest.raises(DataError, match=r"two images for a/0.png"):
        matched(both, data.images, ("a/0.png", "b/0.png"))


def test_boxes_that_cannot_be_right_are_refused_for_their_sample_alone(tmp_path):
    data = load_data(DataSpec((torch.zeros(4, 1, 6, 8), None)))
    boxes = {"0": [[0, 0, 8.9, 6]], "1": [[3, 0, 8, 6]], "2": [], "3": [[-0.5, 0, 2, 2]]}
    found = matched(coco(tmp_path / "x.json", boxes), data.images, ())
    assert found(0).tolist() == [[0, 0, 8, 6]]  # what is published is rounded
    assert found(3).tolist() == [[0, 0, 1.5, 2]]
    for index, said in ((1, "its box 3, 0, 11, 6 leaves the image of 8 x 6 pixels"), (2, "has no box for this sample")):
        with pytest.raises(SampleError, match=said):
            found(index)
    assert found.lacking == "samples without a box in x.json: 1 of 4"
    other = matched(coco(tmp_path / "y.json", {"0": [[0, 0, 2, 2]]}, width=16, height=12), data.images, ())
    with pytest.raises(SampleError, match="its boxes are for an image of 16 x 12 pixels, and it has 8 x 6"):
        other(0)


def test_cubs_files_are_read_as_they_are(pictures, tmp_path):
    data = load_data(DataSpec(str(pictures[0]), channels=1))
    (tmp_path / "images.txt").write_text("1 a/1.png\n2 a/0.png\n")
    path = tmp_path / "bounding_boxes.txt"
    path.write_text("1 1.0 2.0 3.0 4.0\n2 12.0 15.0 10.0 20.0\n")
    found = matched(path, data.images, data.sources)
    assert (found(1).tolist(), found(0).tolist()) == ([[1, 2, 4, 6]], [[12, 15, 22, 35]])


BROKEN = {
    "words": ("x.json", "hello", "is not a readable file of boxes"),
    "a list": ("x.json", "[]", "must hold the lists images and annotations"),
    "no id": ("x.json", '{"images": [{}], "annotations": []}', "an image must have a number as its id"),
    "twice": ("x.json", '{"images": [{"id": 1}, {"id": 1}], "annotations": []}', "an id of its own"),
    "whose": ("x.json", '{"images": [{"id": 1}], "annotations": [{"image_id": 2, "bbox": [0, 0, 1, 1]}]}', "not in its images"),
    "flat": ("x.json", '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "bbox": [0, 0, 0, 1]}]}', "the last two above 0"),
    "endless": ("x.json", '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "bbox": [0, NaN, 1, 1]}]}', "four finite numbers"),
    "by place": ("x.json", '{"images": [{"id": 8}], "annotations": []}', "from 0 to 7, got 8"),
    "none": ("x.json", '{"images": [{"id": 1}], "annotations": []}', "has no box for any of the 8 samples"),
    "no names": ("x.txt", "1 0 0 1 1", "there is no file images.txt beside x.txt"),
    "another kind": ("x.csv", "1,2", "must be a COCO .json or CUB's bounding_boxes.txt"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), BROKEN.values(), ids=BROKEN)
def test_files_that_hold_no_boxes_are_refused_in_plain_words(made, tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    done = scored(made, boxes=tmp_path / name)
    assert (done.code, said in done.said) == (3, True), done.said


# a made set, whose maps are the images themselves

BLOCK = [2, 2, 4, 4]  # x, y, width, height: the object of all images but the last two


def drawn(*rectangles) -> np.ndarray:
    pixels = np.zeros((10, 10), np.uint8)
    for x, y, width, height, value in rectangles:
        pixels[y : y + height, x : x + width] = value
    return pixels


MADE = {  # the image; its box; whether its class is right
    "found": (drawn((2, 2, 4, 4, 190)), BLOCK, True),
    "half": (drawn((2, 2, 4, 2, 190)), BLOCK, True),  # IoU 1/2
    "elsewhere": (drawn((7, 7, 3, 3, 190)), BLOCK, True),
    "core": (drawn((2, 2, 4, 4, 77), (3, 3, 2, 2, 190)), BLOCK, True),  # up to a threshold of 77 / 190 = .405
    "empty": (drawn(), BLOCK, True),
    "wrong": (drawn((2, 2, 4, 4, 190)), BLOCK, False),
    "halo": (drawn((1, 1, 8, 8, 60), (3, 3, 4, 4, 190)), [3, 3, 4, 4], True),  # from a threshold of 60 / 190 = .316
    "two": (drawn((5, 4, 5, 5, 190), (0, 0, 3, 3, 190)), [0, 0, 3, 3], True),  # the smaller part
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "own.py").write_text("def itself(model, x, target):\n    return x\n")
    (folder / "net.py").write_text(
        "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(100, 2))\n"
    )
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(100, 2))
    torch.save(net.state_dict(), folder / "net.pt")
    images = np.stack([image for image, _, _ in MADE.values()])[:, None]
    top = net(torch.from_numpy(images).float() / 255).argmax(dim=1).numpy()
    np.savez(
        folder / "data.npz", images=images, labels=np.where([right for _, _, right in MADE.values()], top, 1 - top)
    )
    coco(folder / "boxes.json", {name: [box] for name, (_, box, _) in MADE.items()})
    return folder


def scored(made: Path, *more, boxes: Path | None = None) -> Done:
    own = ("--arch", f"{made}/net.py:net", "--attribution", f"{made}/own.py:itself", "--metric", "localisation")
    return attrcert(
        "score", made / "net.pt", made / "data.npz", *own, "--boxes", boxes or made / "boxes.json", "-q", *more
    )


def test_a_made_set_has_the_figures_that_are_counted_by_hand(made):
    done = scored(made, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    rows = dict(zip(MADE, told["rows"], strict=True))
    expected = {"found": 1, "half": 0.5, "elsewhere": 0, "core": 1, "empty": 0, "wrong": 1, "halo": 0.25, "two": 0}
    assert {name: row["loc_iou"] for name, row in rows.items()} == pytest.approx(expected)
    assert [name for name, row in rows.items() if row["gt_known_loc"]] == ["found", "half", "core", "wrong"]
    assert [name for name, row in rows.items() if row["top1_loc"]] == ["found", "half", "core"]
    assert rows["core"]["loc_box"] == "2, 2, 6, 6"
    assert "has no box" in rows["empty"]["message"]
    assert rows["core"]["box_hits"].split("; ")[0] == "largest 0.5: 0-405"
    assert rows["halo"]["box_hits"].split("; ")[-1] == "any 0.7: 316-999"
    assert hit_at(rows["empty"]["box_hits"], "any 0.3") == ()
    (found,) = told["localised"]
    assert (found["gt_known_loc"], found["top1_loc"]) == (4 / 8, 3 / 8)
    assert found["max_box_acc"] == {"share": 5 / 8, "threshold": 0.316}  # found, half, core, wrong and halo
    shares = {level: best["share"] for level, best in found["by_iou"].items()}
    assert shares == {"0.3": 6 / 8, "0.5": 6 / 8, "0.7": 5 / 8}  # and two; half is not at 0.7
    assert found["max_box_acc_v2"] == pytest.approx(17 / 24)


def test_tables_and_rules_are_made_of_the_rows(made, tmp_path):
    done = scored(
        made, "--out", tmp_path / "x.csv", "--loc-threshold", 0.35, "--require", "fraction(gt_known_loc) >= 60%"
    )
    assert done.code == 0, done.err  # at this threshold the halo is off
    assert "5 of 8" not in done.shown
    assert "62.5% @0.316" in done.shown
    assert "MaxBoxAccV2" in done.shown
    rule = ("--require", "fraction(top1_loc) >= 60%")
    assert attrcert("gate", tmp_path / "x.csv", *rule).code == 1
    page = tmp_path / "page.html"
    assert attrcert("report", tmp_path / "x.csv", "-o", page).code == 0
    assert "How often the map finds the object" in page.read_text()


def test_a_sample_whose_box_is_missing_has_a_row_that_says_so_and_the_others_stay(made, tmp_path):
    boxes = {name: [box] for name, (_, box, _) in MADE.items()}
    done = scored(
        made, "--format", "csv", boxes=coco(tmp_path / "x.json", {**boxes, "half": [], "two": [[0, 0, 30, 3]]})
    )
    statuses = [row["status"] for row in done.rows]
    assert (done.code, statuses) == (4, ["ok", "error:box", *["ok"] * 5, "error:box"])
    assert "leaves the image of 10 x 10 pixels" in done.rows[-1]["message"]


def test_a_run_goes_on_with_the_same_boxes_alone(made, tmp_path):
    path = coco(tmp_path / "boxes.json", {name: [box] for name, (_, box, _) in MADE.items()})
    assert scored(made, "--out", tmp_path / "x.csv", boxes=path).code == 0
    assert scored(made, "--out", tmp_path / "x.csv", "--resume", boxes=path).code == 0
    coco(path, {name: [BLOCK] for name in MADE})
    done = scored(made, "--out", tmp_path / "x.csv", "--resume", boxes=path)
    assert (done.code, "boxes" in done.said) == (2, True)


def test_the_papers_map_is_of_the_loss(made):
    words = ("--loc-map", "art", "--format", "csv", "--attribution", "saliency")
    base = (
        "score",
        made / "net.pt",
        made / "data.npz",
        "--arch",
        f"{made}/net.py:net",
        "--metric",
        "localisation",
        "-q",
    )
    done = attrcert(*base, "--boxes", made / "boxes.json", *words)
    assert done.code == 0, done.err
    net = nn.Sequential(nn.Flatten(), nn.Linear(100, 2))
    net.load_state_dict(torch.load(made / "net.pt"))
    x = torch.from_numpy(MADE["half"][0]).float()[None, None].div(255).requires_grad_()
    nn.functional.cross_entropy(net(x), net(x).argmax(dim=1)).backward()
    heat = unit(processed(x.grad[0].abs().mean(dim=0).double().numpy()))
    box = largest(heat, 0.2)
    assert done.rows[1]["loc_box"] == ", ".join(f"{corner:g}" for corner in box[0])
    assert float(done.rows[1]["loc_iou"]) == pytest.approx(iou(box, np.array([[2.0, 2, 6, 6]]))[0, 0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metric", "localisation"), "--metric localisation needs --boxes"),
        (("--metric", "insertion", "--boxes", "x.json"), "--boxes has no effect here: it is for --metric localisation"),
        (
            ("--metric", "localization", "--boxes", "x.json", "--loc-map", "art", "--attribution", "ixg"),
            "takes no other --attribution",
        ),
        (
            ("--metric", "localisation", "--boxes", "x.json", "--loc-threshold", "1"),
            "--loc-threshold must be at most 0.999",
        ),
        (("--metric", "localisation", "--boxes", "nothing.json"), "there is no file of boxes nothing.json"),
    ],
)
def test_what_cannot_be_is_refused(words, said):
    done = attrcert("score", "--limit", 2, *words)
    assert done.code in (2, 3)
    assert said in done.said
