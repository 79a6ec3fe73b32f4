"""Real input for tests: JPEGs and text, made here or found in what is installed."""

import importlib.util
import io
import math
import random
import shutil
import sysconfig
from pathlib import Path

from PIL import Image

_PHOTOGRAPHS = (
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
)
_LICENCES = Path("/usr/share/common-licenses")


def gradient(width, height, red=1.0):
    """A smooth RGB image."""
    image = Image.new("RGB", (width, height))
    image.putdata(
        [
            (int(red * 255 * x / width), int(255 * y / height), int(255 * (x + y) / (width + height)))
            for y in range(height)
            for x in range(width)
        ]
    )
    return image


def jpeg(image, **options):
    """The image as the bytes of a JPEG."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **{"quality": 90, **options})
    return buffer.getvalue()


def photographs():
    """Real photographs of installed packages, and of CPython's own tests where these are installed."""
    actual = []
    for package, name in _PHOTOGRAPHS:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            actual.append(Path(spec.origin).parent / name)
    tests = Path(sysconfig.get_path("stdlib")) / "test"
    actual += [tests / "test_email/data/python.jpg", tests / "imghdrdata/python.jpg"]
    return [path for path in actual if path.is_file()]


def image_folder(folder, train=False):
    """Three classes of JPEGs in ImageNet's layout: smooth, noisy, grey, CMYK, turned by EXIF, photographs.

    Returns the number of images.
    """
    below = folder / "train" if train else folder
    turned = Image.Exif()
    turned[0x0112] = 6
    noise = Image.effect_noise((90, 70), 80)
    files = {
        "n01/one.JPEG": jpeg(gradient(120, 80)),
        "n01/two.jpg": jpeg(gradient(40, 200, red=0.5), progressive=True),
        "n02/noise.jpeg": jpeg(noise.convert("RGB"), quality=60, subsampling=0),
        "n02/grey.JPG": jpeg(noise),
        "n02/turned.jpg": jpeg(gradient(64, 48), exif=turned.tobytes()),
        "n03/cmyk.jpg": jpeg(gradient(50, 60).convert("CMYK")),
        "n03/tiny.jpg": jpeg(gradient(3, 2)),
        "n03/wide.jpg": jpeg(gradient(300, 12)),
    }
    for name, content in files.items():
        path = below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    real = photographs()
    for i, photograph in enumerate(real):
        shutil.copy(photograph, below / "n03" / f"real-{i}.jpg")
    return len(files) + len(real)


def text_folder(folder, files=2, documents=12):
    """Small text files: licences where the system has them, and made-up sentences, the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [
        "the",
        "model",
        "reads",
        "hidden",
        "words",
        "and",
        "learns",
        "while",
        "a",
        "naïve",
        "loss",
        "falls",
    ]
    chance = random.Random(7)
    for number in range(files):
        text = []
        for _ in range(documents):
            sentences = [
                " ".join(chance.choice(words) for _ in range(chance.randint(3, 14))).capitalize() + "."
                for _ in range(chance.randint(1, 8))
            ]
            text.append("\n".join(sentences[:2]) + " " + " ".join(sentences[2:]))
        (folder / f"made-{number}.txt").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    for name in ("GPL-3", "Apache-2.0"):
        if (_LICENCES / name).is_file():
            shutil.copy(_LICENCES / name, folder / f"{name}.txt")


def close(share, expected, count):
    """Whether a share of `count` independent draws is what chance allows: within four standard deviations."""
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / count)
