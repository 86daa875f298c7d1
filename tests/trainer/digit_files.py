"""Writes the digits of FOLDER's idx files (train-*), sorted by class, in every format that tandem reads, into FOLDER:
digit_files.py FOLDER. Numbers are what bytes become in tandem: float32(byte) * float32(1 / 255). Exits 3 where a package is missing."""
import io
import json
import os
import struct
import sys
import tarfile

try:
    import numpy
    import pyarrow
    import pyarrow.parquet
    from PIL import Image
except ImportError as error:
    print(error)
    sys.exit(3)

from records import masked, message, varint

folder = sys.argv[1]


def path(name):
    return os.path.join(folder, name)


def idx(name, header):
    return numpy.frombuffer(open(path(name), "rb").read()[header:], numpy.uint8)


labels = idx("train-labels-idx1-ubyte", 8)
pixels = idx("train-images-idx3-ubyte", 16).reshape(len(labels), 28, 28)
order = numpy.argsort(labels, kind="stable")
labels, pixels = labels[order], pixels[order]
numbers = pixels.astype(numpy.float32).reshape(len(labels), -1) * numpy.float32(1 / 255)


def encoded(image, kind, **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


pngs = [encoded(image, "PNG") for image in pixels]
for i, (label, png) in enumerate(zip(labels, pngs)):
    for kind, data in (("png", png), ("jpg", encoded(pixels[i], "JPEG", quality=95))):
        os.makedirs(path(f"{kind}/{label}"), exist_ok=True)
        with open(path(f"{kind}/{label}/{i:05d}.{kind}"), "wb") as file:
            file.write(data)

with open(path("digits.csv"), "w") as file:
    file.write(",".join(f"p{k}" for k in range(784)) + ",digit\n")
    for row, label in zip(numbers, labels):
        file.write(",".join(str(v) for v in row) + f",{label}\n")
with open(path("digits.jsonl"), "w") as file:
    for row, label in zip(numbers, labels):
        file.write(json.dumps({"x": [float(v) for v in row], "label": int(label)}) + "\n")
numpy.savez_compressed(path("digits.npz"), x=numbers, y=labels.astype(numpy.int64))
numpy.save(path("x.npy"), numbers)
numpy.save(path("y.npy"), labels.astype(numpy.int64))
table = pyarrow.table({"x": pyarrow.array(list(numbers), pyarrow.list_(pyarrow.float32())), "label": pyarrow.array(labels.astype(numpy.int64))})
pyarrow.parquet.write_table(table, path("digits.parquet"), row_group_size=100)

half = len(labels) // 2
for shard, part in enumerate((range(half), range(half, len(labels)))):
    with tarfile.open(path(f"digits-{shard}.tar"), "w") as tar:
        for i in part:
            for ending, body in (("png", pngs[i]), ("cls", b"%d" % labels[i])):
                info = tarfile.TarInfo(f"{i:05d}.{ending}")
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
with open(path("digits.tfrecord"), "wb") as file:
    for png, label in zip(pngs, labels):
        features = {"image": message(1, message(1, png)), "label": message(3, message(1, varint(int(label))))}
        body = message(1, b"".join(message(1, message(1, k.encode()) + message(2, v)) for k, v in features.items()))
        size = struct.pack("<Q", len(body))
        file.write(size + masked(size) + body + masked(body))
