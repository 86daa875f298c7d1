"""tandem's input pipeline beside torchvision's, by turns on the same JPEGs: input_pipeline.py PROGRAM [ROUNDS].

PROGRAM is build/release/bench/input_pipeline. torchvision reads by ImageFolder and DataLoader, decodes by Pillow or by its own decoder
(decode_jpeg), and does what tandem does: Resize(224) and CenterCrop(224), or RandomResizedCrop(224) and RandomHorizontalFlip, then
normalises. Prints the median of the rounds, images a second.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from PIL import Image
from torchvision import datasets, io
from torchvision.transforms import v2

IMAGES, SECONDS, BATCH = 200, 3, 32


def make_images(folder):
    draw = numpy.random.default_rng(7)
    y, x = numpy.mgrid[0:375, 0:500]
    for i in range(IMAGES):
        length = draw.uniform(5, 40, 3)
        planes = [128 + 60 * numpy.sin(x / length[c]) * numpy.cos(y / length[(c + 1) % 3]) + 14 * draw.uniform(-1, 1, (375, 500)) for c in range(3)]
        place = folder / "ab"[i % 2]
        place.mkdir(exist_ok=True)
        Image.fromarray(numpy.stack(planes, -1).clip(0, 255).astype(numpy.uint8)).save(place / f"{i}.jpg", quality=90)


def decode(path):
    return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)


def torchvision_rate(folder, decoder, training, workers):
    where = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()] if training else [v2.Resize(224, antialias=True), v2.CenterCrop(224)]
    steps = v2.Compose([*where, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    data = datasets.ImageFolder(folder, steps, loader=decode if decoder == "decode_jpeg" else datasets.folder.pil_loader)
    loader = torch.utils.data.DataLoader(torch.utils.data.ConcatDataset([data] * 50), BATCH, shuffle=True, num_workers=workers, worker_init_fn=lambda _: torch.set_num_threads(1))
    batches = iter(loader)
    for _ in range(2 * workers + 2):
        next(batches)
    images, start = 0, time.time()
    while time.time() - start < SECONDS:
        images += len(next(batches)[0])
    return images / (time.time() - start)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        make_images(pathlib.Path(name))
        for _ in range(rounds):
            text = subprocess.run([program, str(IMAGES), str(SECONDS), name], check=True, capture_output=True, text=True).stdout
            for what, rate in re.findall(r"(.*): (\d+) images/s", text):
                rates.setdefault(f"tandem, {what}", []).append(float(rate))
            for decoder in ("Pillow", "decode_jpeg"):
                for training in (False, True):
                    for workers in (1, 2):
                        rates.setdefault(f"torchvision, {decoder}, {'training' if training else 'evaluation'}, {workers} workers", []).append(torchvision_rate(name, decoder, training, workers))
    for what, all_of in rates.items():
        print(f"{what}: {statistics.median(all_of):.0f}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
