"""Images in all their forms: decoded when asked for, one bad sample for itself alone, bad data with a reason."""

import hashlib
import os
import pickle
import struct
import textwrap
import zipfile
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from attrcert import bound
from attrcert.errors import DataError, InputError, SampleError, UsageError
from attrcert.loading import vision
from attrcert.loading.datasets import LoadedData, load_data
from attrcert.loading.wrapping import wrap
from attrcert.running.evaluating.samples import read
from attrcert.settings.sources import DataSpec


def load(dataset: Path | str, **spec) -> LoadedData:
    return load_data(DataSpec(str(dataset), **spec))


def read_all(dataset: Path) -> list:
    data = load(dataset)
    return [data.images[index] for index in data.indices]


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def npz(tmp_path):
    def write(name: str = "data.npz", **arrays) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


@pytest.fixture
def user_file(tmp_path):
    def write(source: str, name: str = "their_data.py") -> Path:
        (tmp_path / name).write_text(textwrap.dedent(source))
        return tmp_path / name

    return write


def picture(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(array).save(path)
    return path


# arrays


def test_the_bundled_sample_has_256_labelled_images_in_range():
    data = load("fashion-test")
    image, label = data.images[255]
    assert len(data.indices) == 256
    assert image.shape == (1, 28, 28)
    assert 0 <= image.min() < image.max() <= 1
    assert label in range(10)


@pytest.mark.parametrize("scale", [1, 255], ids=["uint8", "float"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NHW"])
def test_every_array_layout_gives_the_same_images(npz, layout, scale):
    grey = layout == "NHW"
    raw = pixels(3, 5, 6) if grey else pixels(3, 5, 6, 3)
    stored = {"NHWC": raw, "NCHW": raw if grey else raw.transpose(0, 3, 1, 2), "NHW": raw}[layout]
    data = load(npz(images=stored if scale == 1 else stored / 255, labels=np.array([4, 5, 6])))
    expected = torch.from_numpy(raw[1][None] if grey else raw[1].transpose(2, 0, 1)).double() / 255
    image, label = data.images[1]
    torch.testing.assert_close(image.double(), expected, rtol=0, atol=1e-7)  # uint8 becomes float32
    assert label == 5


def test_one_channel_arrays_are_read_in_both_layouts(npz):
    raw = pixels(3, 5, 6)
    last, first = npz("last.npz", images=raw[..., None]), npz("first.npz", images=raw[:, None])
    assert torch.equal(load(last).images[2][0], load(first).images[2][0])
    assert load(last).images[2][0].shape == (1, 5, 6)


def test_arrays_without_labels_have_none(npz):
    assert load(npz(images=pixels(3, 5, 6))).images[0][1] is None


def test_float64_arrays_keep_their_digits(npz):
    images = np.full((2, 3, 3), 1 / 3)
    assert load(npz(images=images)).images[0][0].double()[0, 0, 0].item() == 1 / 3


@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "non-finite"), (np.inf, "non-finite"), (1.5, "range"), (-0.1, "range"), (255, "range")]
)
def test_a_bad_pixel_spoils_its_own_sample_only(npz, value, kind):
    images = np.full((3, 4, 4), 0.5, dtype=np.float32)
    images[1, 2, 2] = value
    data = load(npz(images=images))
    with pytest.raises(SampleError) as caught:
        data.images[1]
    assert caught.value.kind == kind
    assert data.images[0][0].shape == data.images[2][0].shape == (1, 4, 4)


def test_the_message_for_pixels_up_to_255_says_how_to_mend_them(npz):
    with pytest.raises(SampleError, match="255"):
        load(npz(images=np.full((1, 4, 4), 200.0))).images[0]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"pictures": pixels(2, 4, 4)}, "`images`.*got pictures"),
        ({}, "`images`"),
        ({"images": pixels(3, 4, 4), "labels": np.arange(2)}, "3 images but 2 labels"),
        ({"images": pixels(16)}, "shape"),
        ({"images": pixels(1, 2, 3, 4, 5)}, "shape"),
        ({"images": pixels(0, 4, 4)}, "no images"),
        ({"images": np.array([None, "a"], dtype=object)}, "plain arrays"),
        ({"images": pixels(2, 4, 4), "labels": np.array([{}, 1], dtype=object)}, "plain arrays"),
    ],
    ids=["other key", "no key", "fewer labels", "flat", "five axes", "empty", "object images", "object labels"],
)
def test_arrays_that_are_no_image_set_are_refused_with_the_reason(npz, arrays, said):
    with pytest.raises(DataError, match=said) as caught:
        load(npz(**arrays))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "labels",
    [np.eye(3), np.array(["cat", "dog", "cow"]), np.array([0, np.nan, 1]), np.array(7), np.array([0.5, 1, 2])],
    ids=["one-hot", "words", "NaN", "one number", "fractions"],
)
def test_labels_that_are_no_class_numbers_are_refused(npz, labels):
    with pytest.raises(InputError, match="label"):
        read_all(npz(images=pixels(3, 4, 4), labels=labels))


def test_images_that_are_no_numbers_are_refused(npz):
    with pytest.raises(InputError, match="image"):
        load(npz(images=np.full((2, 4, 4), "a"))).images[0]


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut"], ids=["empty", "text", "torn"])
def test_a_file_that_is_no_npz_is_refused(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"data\.npz is not a readable"):
        load(tmp_path / "data.npz")


def test_a_pickle_named_npz_is_refused_and_does_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    (tmp_path / "data.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"data\.npz"):
        load(tmp_path / "data.npz")
    assert not (tmp_path / "ran").exists()


def test_an_npz_with_a_damaged_member_is_refused(npz):
    path = npz(images=pixels(200, 8, 8))
    content = bytearray(path.read_bytes())
    content[500:600] = bytes(100)
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"data\.npz"):
        load(path)


def test_arrays_that_would_fill_more_than_the_cap_are_refused_before_they_are_read(npz, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", images=np.zeros((2000, 40, 40), np.uint8))
    read = []
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: read.append(a))
    with pytest.raises(DataError, match=r"bomb\.npz would fill 3\.2 MB .*--max-input 3MB") as caught:
        load(tmp_path / "bomb.npz", max_input="3MB")
    assert caught.value.hint == "if you trust it, give --max-input 1GB"
    assert not read
    monkeypatch.undo()
    assert len(load(tmp_path / "bomb.npz", max_input="3.3MB").indices) == 2000


def test_a_file_that_is_as_large_on_the_disk_is_no_bomb(npz):
    assert len(load(npz(images=pixels(3, 40, 40)), max_input="1KB").indices) == 3


@pytest.mark.parametrize(
    "shape", ["(1000000000, 28, 28)", "(-1, 28, 28)", "(10**9,)", f"({'9' * 4000}, 2, 2)", "(" * 300 + ")" * 300]
)
def test_a_header_that_declares_what_the_file_does_not_hold_is_refused(tmp_path, shape):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))
    with pytest.raises(DataError, match=r"lie\.npz is not a readable"):
        load(tmp_path / "lie.npz")


def test_images_without_pixels_are_refused_however_many_there_are(tmp_path):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 0, 1), }"
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(DataError, match="must have pixels"):
        load(tmp_path / "many.npz")


def test_a_single_array_named_npz_says_how_to_save_it(tmp_path):
    with (tmp_path / "data.npz").open("wb") as stream:
        np.save(stream, pixels(3, 4, 4))
    with pytest.raises(DataError, match=r"a single array, an \.npy") as caught:
        load(tmp_path / "data.npz")
    assert "np.savez" in caught.value.hint


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_a_compression_that_numpy_does_not_write_is_refused(npz, tmp_path, method):
    path = npz(images=pixels(3, 4, 4))
    content = path.read_bytes()
    for magic, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.index(magic) + place
        content = content[:at] + struct.pack("<H", method) + content[at + 2 :]
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.npz is not a readable.*compression"):
        load(path)


@pytest.mark.parametrize("dtype", [">f4", ">f8", "longdouble", "f2", ">f2"])
def test_floats_of_any_length_and_byte_order_are_the_same_pixels(npz, dtype):
    images = np.linspace(0, 1, 18).reshape(2, 3, 3)
    image, _ = load(npz(images=images.astype(dtype))).images[1]
    np.testing.assert_allclose(image[0].numpy(), images[1], atol=1e-3 if "2" in dtype else 1e-7)


@pytest.mark.parametrize("dtype", ["u2", ">u2", "i4", "u8", ">i8"])
def test_wide_integers_are_read_or_said_to_be_out_of_range(npz, dtype):
    low = load(npz("low.npz", images=np.array([[[0, 1]]], dtype))).images[0][0]
    assert low.tolist() == [[[0.0, 1.0]]]
    with pytest.raises(SampleError, match=r"got 0 to 300 .*255"):
        load(npz("high.npz", images=np.array([[[0, 300]]], dtype))).images[0]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, np.inf, 1]),
        np.array([-np.inf, 0, 0]),
        np.array([0, -1, 2]),
        np.array([0, 1, 2**63], np.uint64),
        np.array([0, 1e300, 0]),
        np.array([0, 1, np.nan], "longdouble"),
        np.array([0, 1, np.inf], "f2"),
    ],
    ids=["inf", "-inf", "negative", "uint64", "huge", "long NaN", "short inf"],
)
def test_labels_that_no_class_can_have_are_refused_with_their_place(npz, labels):
    with pytest.raises(DataError, match=r"labels must be class numbers .*data\.npz has .* at index \d"):
        load(npz(images=pixels(3, 4, 4), labels=labels))


@pytest.mark.parametrize("dtype", [">i4", ">f8", "u1", "longdouble", "f2"])
def test_labels_of_any_number_type_are_class_numbers(npz, dtype):
    data = load(npz(images=pixels(3, 4, 4), labels=np.array([4, 5, 6], dtype)))
    assert [data.images[i][1] for i in range(3)] == [4, 5, 6]


# names that lead nowhere


@pytest.mark.parametrize("name", ["gone.npz", "folder/gone", "gone.zip"])
def test_data_that_are_not_there_are_said(tmp_path, name):
    with pytest.raises(DataError, match="there is no data file"):
        load(tmp_path / name)


def test_an_unknown_sample_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        load("fashon-test")
    assert "'fashion-test'" in caught.value.hint


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "data.txt").write_text("1,2,3")
    with pytest.raises(DataError, match=r"folder of images, an \.npz"):
        load(tmp_path / "data.txt")


# folders


def test_class_folders_give_labels_in_alphabetic_order(tmp_path):
    for name in ("zebra", "ant", "mole"):
        for i in range(2):
            picture(tmp_path / name / f"{i}.png", pixels(4, 4, 3, seed=i))
    data = load(tmp_path)
    assert [data.images[i][1] for i in data.indices] == [0, 0, 1, 1, 2, 2]
    assert [path.parent.name for path in data.images.paths] == ["ant", "ant", "mole", "mole", "zebra", "zebra"]


def test_class_folders_have_the_numbers_of_their_names_also_where_some_are_missing(tmp_path):
    for name in ("zebra", "mole"):
        picture(tmp_path / "data" / name / "sub" / "0.png", pixels(4, 4, 3))
    (tmp_path / "names.json").write_text('["zebra", "ant", "mole"]')
    told = load_data(DataSpec(str(tmp_path / "data")), of_model=["ant", "mole", "zebra"])
    assert [told.images[i][1] for i in told.indices] == [1, 2]
    said = load(tmp_path / "data", classes=str(tmp_path / "names.json"))
    assert [said.images[i][1] for i in said.indices] == [2, 0]
    assert [said.source(i) for i in said.indices] == ["mole/sub/0.png", "zebra/sub/0.png"]
    assert [said.label_name(label) for label in (2, 0, None)] == ["mole", "zebra", None]
    assert said.facts["classes"] == ["zebra", "ant", "mole"]


@pytest.mark.parametrize(
    ("classes", "said", "hint"),
    [
        (["ant", "zebras"], "'zebra' is not one of them", "'zebras'"),
        (["ant", "zebra", "zebra"], "'zebra' is the name of the classes 1, 2", "--classes"),
    ],
)
def test_a_class_folder_that_is_no_class_is_refused_with_the_nearest_name(tmp_path, classes, said, hint):
    picture(tmp_path / "zebra" / "0.png", pixels(4, 4, 3))
    with pytest.raises(DataError, match=said) as caught:
        load_data(DataSpec(str(tmp_path)), of_model=classes)
    assert hint in caught.value.hint


def test_class_folders_that_are_numbers_are_these_classes(tmp_path):
    for name in ("10", "7"):
        picture(tmp_path / name / "0.png", pixels(4, 4, 3))
    data = load_data(DataSpec(str(tmp_path)), of_model=[f"digit {i}" for i in range(11)])
    assert [data.images[i][1] for i in data.indices] == [10, 7]


def test_rows_and_messages_name_the_file_of_a_sample(tmp_path):
    for name in ("Bag/0.png", "Coat/1.png", "Coat/2.png"):
        picture(tmp_path / name, pixels(28, 28) if name != "Coat/1.png" else pixels(20, 28))
    (tmp_path / "Coat" / "2.png").write_bytes(b"no picture")
    rows = bound("fashion-natural", str(tmp_path), eps=0.1)
    assert [(row["source"], row["label"], row["label_name"]) for row in rows] == [
        ("Bag/0.png", 8, "Bag"),
        ("Coat/1.png", 4, "Coat"),
        ("Coat/2.png", None, None),
    ]
    assert rows[1]["message"].startswith("Coat/1.png: the run's samples have the shape")
    assert rows[2]["message"].startswith(f"{tmp_path / 'Coat' / '2.png'} cannot be decoded")


@pytest.mark.parametrize("text", ["", "[1.5]", "[", '{"a": 0}\n\n'])
def test_a_file_of_class_names_that_is_none_is_refused(tmp_path, text):
    picture(tmp_path / "data" / "a" / "0.png", pixels(4, 4, 3))
    (tmp_path / "names.txt").write_text(text)
    with pytest.raises(DataError, match=r"names\.txt"):
        load(tmp_path / "data", classes=str(tmp_path / "names.txt"))


def test_both_sides_are_resized(tmp_path):
    picture(tmp_path / "a.png", pixels(8, 6, 3))
    assert load(tmp_path, resize="4,10").images[0][0].shape == (3, 4, 10)
    assert load(tmp_path, resize=3).images[0][0].shape == (3, 4, 3)


def test_a_flat_folder_has_no_labels_and_skips_what_is_no_image(tmp_path):
    for name in ("b.png", "a.PNG", "c.bmp"):
        picture(tmp_path / name, pixels(4, 4, 3))
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    data = load(tmp_path)
    assert [path.name for path in data.images.paths] == ["a.PNG", "b.png", "c.bmp"]
    assert [data.images[i][1] for i in data.indices] == [None] * 3


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (4, 5, 4)], ids=["grey", "RGB", "RGBA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour_files_are_decoded_to_the_asked_channels(tmp_path, shape, channels):
    picture(tmp_path / "a.png", pixels(*shape))
    image, _ = load(tmp_path, channels=channels).images[0]
    assert image.shape == (channels, 4, 5)
    assert image.max() > 0.5


def test_a_lossless_file_is_decoded_to_its_pixels(tmp_path):
    raw = pixels(4, 5, 3)
    picture(tmp_path / "a.png", raw)
    image, _ = load(tmp_path).images[0]
    torch.testing.assert_close(image, torch.from_numpy(raw.transpose(2, 0, 1)).float() / 255)


def test_sixteen_bit_grey_files_keep_their_grey_levels(tmp_path):
    levels = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    picture(tmp_path / "a.png", levels)
    image, _ = load(tmp_path, channels=1).images[0]
    # eight bits may be lost, not the picture
    torch.testing.assert_close(image[0], torch.from_numpy(levels / 65535).float(), atol=1 / 255, rtol=0)


def test_a_folder_of_thousands_is_not_decoded_when_loaded(tmp_path, monkeypatch):
    first = picture(tmp_path / "a" / "00000.png", pixels(4, 4)).read_bytes()
    for i in range(1, 3000):
        (tmp_path / "a" / f"{i:05}.png").write_bytes(first)
    opened = []
    real = PIL.Image.open
    monkeypatch.setattr(PIL.Image, "open", lambda path, *rest: opened.append(path) or real(path, *rest))
    data = load(tmp_path, resize=8)
    assert len(data.indices) == 3000
    assert opened == []
    data.images[17]
    assert [path.name for path in opened] == ["00017.png"]


@pytest.mark.parametrize("content", [b"", b"not a picture"], ids=["empty", "text"])
@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "bmp", "tif", "webp"])
def test_one_file_that_is_no_picture_is_unreadable_and_the_others_are_not(tmp_path, ending, content):
    for i in range(3):
        picture(tmp_path / f"{i}.{ending}", pixels(32, 32, 3, seed=i))
    (tmp_path / f"1.{ending}").write_bytes(content)
    data = load(tmp_path)
    assert data.images[0][0].shape == data.images[2][0].shape == (3, 32, 32)
    with pytest.raises(SampleError, match=rf"1\.{ending}") as caught:
        data.images[1]
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("keep", [10, 30, 60, 200, 700])
@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "bmp", "tif", "webp"])
def test_a_file_cut_anywhere_costs_at_most_its_own_sample(tmp_path, ending, keep):
    for i in range(3):
        picture(tmp_path / f"{i}.{ending}", pixels(32, 32, 3, seed=i))
    cut = tmp_path / f"1.{ending}"
    cut.write_bytes(cut.read_bytes()[:keep])
    data = load(tmp_path)
    batch, failed = read(data.images, data.indices, (3, 32, 32), device=torch.device("cpu"), dtype=torch.float32)
    # some formats decode what is left of a cut file, which is no failure
    assert [*batch.indices, *(failure.index for failure in failed)] in ([0, 2, 1], [0, 1, 2])
    assert {failure.kind for failure in failed} <= {"unreadable"}


def test_a_picture_beyond_the_cap_is_not_decoded_and_its_row_names_the_option(tmp_path, monkeypatch):
    picture(tmp_path / "bomb.png", pixels(300, 300))
    decoding = []
    monkeypatch.setattr(PIL.Image.Image, "convert", lambda self, mode: decoding.append(mode))
    with pytest.raises(
        SampleError, match=r"bomb\.png would fill 2\.16 MB .*--max-input 2MB.*--max-input 1GB"
    ) as caught:
        load(tmp_path, max_input="2MB").images[0]
    assert caught.value.kind == "unreadable"
    assert not decoding


def test_the_cap_stands_in_the_place_of_pillows_own(tmp_path, monkeypatch):
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    picture(tmp_path / "large.png", pixels(32, 32))
    assert load(tmp_path, resize=8).images[0][0].shape == (3, 8, 8)
    assert PIL.Image.MAX_IMAGE_PIXELS == 100


def test_the_default_cap_refuses_a_picture_of_13000_by_13000(tmp_path):
    width = height = 13000
    header = struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "bomb.png").write_bytes(
        content + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    )
    with pytest.raises(SampleError, match=r"would fill 4\.06 GB.*--max-input 5GB"):
        load(tmp_path).images[0]
    with pytest.raises(SampleError, match="cannot be decoded"):  # it has no pixels, but it is tried
        load(tmp_path, max_input="5GB").images[0]


def test_a_file_that_holds_postscript_is_no_picture_whatever_it_is_called(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n")
    with PIL.Image.open(tmp_path / "a.png") as opened:
        assert opened.format == "EPS"  # Pillow alone would start Ghostscript for its pixels
    with pytest.raises(SampleError, match="cannot identify"):
        load(tmp_path).images[0]


def test_a_dangling_link_is_one_unreadable_sample(tmp_path):
    picture(tmp_path / "a.png", pixels(4, 4))
    (tmp_path / "b.png").symlink_to(tmp_path / "gone.png")
    data = load(tmp_path)
    assert data.images[0][0].shape == (3, 4, 4)
    with pytest.raises(SampleError) as caught:
        data.images[1]
    assert caught.value.kind == "unreadable"


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no image files"):
        load(tmp_path)


def test_class_folders_without_images_are_refused(tmp_path):
    (tmp_path / "cats").mkdir()
    with pytest.raises(DataError, match="holds no image files"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["a.png", "cat/a.png", "data.npz"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    other = picture(tmp_path / "cat" / "b.png" if "/" in name else tmp_path / "b.png", pixels(4, 4))
    os.mkfifo(tmp_path / name)
    if name.endswith(".npz"):
        with pytest.raises(DataError, match=r"must be a regular file.*pipe"):
            load(tmp_path / name)
        return
    data = load(tmp_path)
    assert data.images.paths == (tmp_path / name, other)
    assert data.images[1][0].shape == (3, 4, 4)
    with pytest.raises(SampleError, match=r"must be a regular file.*is a pipe") as caught:
        data.images[0]
    assert caught.value.kind == "unreadable"


def test_a_folder_whose_name_ends_like_a_picture_is_no_picture(tmp_path):
    picture(tmp_path / "a.png", pixels(4, 4))
    (tmp_path / "b.png").mkdir()
    assert [path.name for path in load(tmp_path).images.paths] == ["a.png"]


def test_a_sub_folder_without_images_leaves_a_flat_folder_flat(tmp_path):
    picture(tmp_path / "a.png", pixels(4, 4))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.me").write_text("nothing to see")
    data = load(tmp_path)
    assert [path.name for path in data.images.paths] == ["a.png"]
    assert data.images[0][1] is None


def test_images_beside_class_folders_are_refused_and_not_left_out(tmp_path):
    picture(tmp_path / "a.png", pixels(4, 4))
    picture(tmp_path / "thumbnails" / "a.png", pixels(2, 2))
    with pytest.raises(DataError, match=r"not both: it has a\.png beside thumbnails"):
        load(tmp_path)


def test_a_class_folder_without_images_keeps_its_label(tmp_path):
    for name in ("ant", "bee", "cat"):
        (tmp_path / name).mkdir()
    picture(tmp_path / "cat" / "a.png", pixels(4, 4))
    assert load(tmp_path).images[0][1] == 2


@pytest.mark.parametrize("name", [b"\xff\xfe.png", b"a\nb\x1b[2J.png", "\u202eb.png".encode()])
def test_a_folder_with_a_name_that_is_no_text_has_a_digest_and_images(tmp_path, name):
    made = picture(tmp_path / "a.png", pixels(4, 4))
    os.rename(made, os.path.join(os.fsencode(tmp_path), name))
    data = load(tmp_path)
    assert data.images[0][0].shape == (3, 4, 4)
    assert data.facts["dataset_sha256"].startswith("listing:")
    data.images.paths[0].write_bytes(b"no picture any more")
    with pytest.raises(SampleError) as caught:
        data.images[0]
    assert caught.value.message.encode()  # it can be written into a row


def test_the_digest_of_a_folder_is_the_one_of_version_0_1(tmp_path):
    made = picture(tmp_path / "ä" / "b c.png", pixels(4, 4))
    listing = f"ä/b c.png {made.stat().st_size}"
    assert load(tmp_path).facts["dataset_sha256"] == f"listing:{hashlib.sha256(listing.encode()).hexdigest()}"


def test_the_manifests_digest_changes_with_the_folder(tmp_path):
    picture(tmp_path / "a.png", pixels(4, 4))
    before = load(tmp_path).facts["dataset_sha256"]
    assert load(tmp_path).facts["dataset_sha256"] == before
    picture(tmp_path / "b.png", pixels(4, 4))
    assert load(tmp_path).facts["dataset_sha256"] != before


# selection


@pytest.mark.parametrize(
    ("selection", "indices"),
    [
        ({}, tuple(range(10))),
        ({"skip": 7}, (7, 8, 9)),
        ({"limit": 3}, (0, 1, 2)),
        ({"skip": 2, "limit": 3}, (2, 3, 4)),
        ({"skip": 8, "limit": 100}, (8, 9)),
        ({"indices": (9, 0, 4)}, (9, 0, 4)),
    ],
)
def test_skip_limit_and_indices_pick_samples(npz, selection, indices):
    assert load(npz(images=pixels(10, 4, 4)), **selection).indices == indices


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"indices": (3, 10)}, "below 10.*got 10"),
        ({"skip": 10}, "no sample is left"),
        ({"indices": (1,), "skip": 1}, "exclude"),
        ({"indices": (1,), "limit": 1}, "exclude"),
    ],
)
def test_impossible_selections_are_usage_errors(npz, selection, said):
    with pytest.raises(UsageError, match=said):
        load(npz(images=pixels(10, 4, 4)), **selection)


def test_resize_takes_the_shorter_side_and_crop_the_centre(tmp_path):
    raw = np.zeros((20, 40, 3), dtype=np.uint8)
    raw[:, 10:30] = 255
    picture(tmp_path / "wide.png", raw)
    assert load(tmp_path, resize=10).images[0][0].shape == (3, 10, 20)
    cropped = load(tmp_path, resize=10, crop=8).images[0][0]
    assert cropped.shape == (3, 8, 8)
    assert cropped.min() > 0.99  # the white half in the middle
    assert load(tmp_path, crop=16).images[0][0].shape == (3, 16, 16)


def test_resizing_keeps_pixels_in_range_and_the_label(npz):
    raw = (pixels(2, 9, 9) > 127).astype(np.uint8) * 255
    image, label = load(npz(images=raw, labels=np.array([3, 4])), resize=24).images[1]
    assert image.min() >= 0
    assert image.max() <= 1
    assert label == 4


# torchvision


class Recorded:
    """A torchvision set that notes how it was opened."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int):
        return PIL.Image.fromarray(pixels(4, 4, 3, seed=index)), index


def fake_set(**parameters):
    """A class whose constructor has exactly these parameters."""
    names = ", ".join(parameters)
    scope: dict = {"Recorded": Recorded}
    exec(
        f"class Fake(Recorded):\n    def __init__(self, {names}):\n        self.opened = dict({', '.join(f'{n}={n}' for n in parameters)})",
        scope,
    )
    return scope["Fake"]


@pytest.fixture
def torchvision_set(monkeypatch):
    def install(name: str, **parameters) -> None:
        monkeypatch.setattr(vision.torchvision("datasets"), name, fake_set(**parameters))

    return install


@pytest.mark.parametrize(("split", "train"), [("test", False), ("train", True)])
def test_a_set_with_a_train_argument_gets_it_from_the_split(tmp_path, torchvision_set, split, train):
    torchvision_set("CIFAR10", root=1, train=1, download=1)
    data = load(f"torchvision:CIFAR10:{split}", data_root=str(tmp_path))
    assert data.images.dataset.opened == {"root": str(tmp_path), "train": train, "download": False}
    assert data.images[2][1] == 2


def test_a_set_with_a_split_argument_gets_the_split(torchvision_set):
    torchvision_set("SVHN", root=1, split=1, download=1)
    data = load("torchvision:SVHN:extra", data_root="somewhere", download=True)
    assert data.images.dataset.opened == {"root": "somewhere", "split": "extra", "download": True}


def test_a_split_that_a_train_test_set_lacks_is_refused(torchvision_set):
    torchvision_set("CIFAR10", root=1, train=1, download=1)
    with pytest.raises((UsageError, DataError), match="validation"):
        load("torchvision:CIFAR10:validation")


def test_a_real_cifar10_folder_is_read(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    raw = pixels(3, 3072)
    batch = {"data": raw, "labels": [3, 8, 0]}
    (folder / "test_batch").write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    cifar = vision.torchvision("datasets").CIFAR10
    monkeypatch.setattr(cifar, "_check_integrity", lambda self: True)
    monkeypatch.setattr(vision.torchvision("datasets.cifar"), "check_integrity", lambda *_: True)
    data = load("torchvision:CIFAR10:test", data_root=str(tmp_path))
    image, label = data.images[1]
    torch.testing.assert_close(image, torch.from_numpy(raw[1].reshape(3, 32, 32)).float() / 255)
    assert label == 8


def test_a_set_without_a_root_is_opened():
    data = load("torchvision:FakeData", limit=2)
    assert data.images[1][0].shape == (3, 224, 224)


def test_a_missing_root_says_what_to_do(tmp_path):
    with pytest.raises(DataError) as caught:
        load("torchvision:CIFAR10:test", data_root=str(tmp_path / "gone"))
    assert "--data-root" in caught.value.hint
    assert "--download" in caught.value.hint


def test_an_unknown_torchvision_set_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        load("torchvision:CIFAR01:test")
    assert "CIFAR10" in caught.value.hint


# the user's own


def test_a_factory_may_give_arrays(user_file):
    path = user_file("""
        import numpy as np
        def make():
            return np.full((4, 5, 5), 0.25), np.arange(4)
    """)
    image, label = load(f"{path}:make").images[3]
    assert image.shape == (1, 5, 5)
    assert label == 3


def test_a_factory_may_give_a_dataset(user_file):
    path = user_file("""
        import torch
        class Squares(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, i):
                if i == 2: raise OSError("the disk is gone")
                return torch.full((3, 5, 5), i / 4), torch.tensor(i)
    """)
    data = load(f"{path}:Squares")
    assert data.images[3][0].shape == (3, 5, 5)
    assert data.images[3][1] == 3
    with pytest.raises(SampleError, match="the disk is gone") as caught:
        data.images[2]
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("body", ["return 3", "return None", "return iter([])", "raise ValueError('no data today')"])
def test_a_factory_that_gives_nonsense_is_a_data_error(user_file, body):
    path = user_file(f"def make():\n    {body}")
    with pytest.raises(DataError, match=r"their_data\.py"):
        load(f"{path}:make")


@pytest.mark.parametrize(
    "item",
    ["{'image': 1}", "(torch.zeros(1, 4, 4), 'cat')", "(torch.zeros(1, 4, 4), 1, 2)", "'a'"],
    ids=["dict", "word as label", "three parts", "text"],
)
def test_a_dataset_of_other_items_fails_with_a_message(user_file, item):
    path = user_file(f"import torch\ndef make(): return [{item}] * 3")
    with pytest.raises(InputError):
        load(f"{path}:make").images[0]


@pytest.mark.parametrize(
    "image",
    [
        torch.zeros(1, 4, 4, dtype=torch.complex64),
        torch.zeros(1, 4, 4).to_sparse(),
        np.full((4, 4), "a"),
        np.full((4, 4), None),
    ],
    ids=["complex", "sparse", "words", "objects"],
)
def test_an_item_whose_pixels_are_no_real_numbers_is_an_error_of_its_own(image):
    with pytest.raises(SampleError, match="numbers") as caught:
        wrap([(image, 0)]).images[0]
    assert caught.value.kind == "item"


@pytest.mark.parametrize(
    "label",
    [torch.tensor(torch.inf), torch.tensor([1, 2]), torch.tensor(0.5), 10**400, "cat"],
    ids=["inf", "two", "half", "huge", "word"],
)
def test_an_item_whose_label_is_no_class_number_is_an_error_of_its_own(label):
    with pytest.raises(SampleError, match="label") as caught:
        wrap([(torch.zeros(1, 4, 4), label)]).images[0]
    assert caught.value.kind == "label"


def test_labels_in_a_list_are_labels():
    images, labels = torch.rand(3, 1, 4, 4), [2, 1, 0]
    wrapped = wrap((images, labels)).images
    assert len(wrapped) == 3
    assert [wrapped[i][1] for i in range(3)] == labels


def test_a_tensor_alone_is_images_without_labels():
    images: Tensor = torch.rand(3, 1, 4, 4)
    wrapped = wrap(images).images
    assert torch.equal(wrapped[1][0], images[1])
    assert wrapped[1][1] is None


@pytest.mark.parametrize(("name", "hint"), [("no-such-folder", "catalogue"), ("wine", "did you mean 'wine-test'?")])
def test_a_name_that_is_neither_a_folder_nor_a_sample_is_told(name, hint):
    with pytest.raises(
        UsageError, match=f"there is no data file or folder {name}, and no bundled sample of that name"
    ) as caught:
        load(name)
    assert hint in caught.value.hint
