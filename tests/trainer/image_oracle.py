"""Writes image files and what Pillow makes of them: image_oracle.py FOLDER. A line of FOLDER/cases is NAME FILE WANTED CHANNELS
HEIGHT WIDTH; HEIGHT 0: decoded alone, else resized. Exits 3 where a package is missing."""
import sys

try:
    import numpy
    from PIL import Image, features
except ImportError as error:
    print(error)
    sys.exit(3)

folder = sys.argv[1]
draw = numpy.random.default_rng(5)


def picture(height, width, channels=3):
    """Smooth shapes with some noise, as JPEG is made for."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [127 + 90 * numpy.sin(x / (5 + 3 * c) + c) * numpy.cos(y / (7 + c)) + draw.normal(0, 8, (height, width)) for c in range(channels)]
    return numpy.clip(numpy.stack(planes, -1), 0, 255).astype(numpy.uint8)


rgb, grey, rgba = Image.fromarray(picture(61, 83)), Image.fromarray(picture(50, 40, 1)[..., 0]), Image.fromarray(picture(20, 30, 4), "RGBA")
wide = Image.fromarray((draw.integers(0, 65536, (24, 18))).astype(numpy.uint16))
files = [
    ("jpeg_rgb", rgb, "jpg", {"quality": 90}),
    ("jpeg_444", rgb, "jpg", {"quality": 75, "subsampling": 0}),
    ("jpeg_progressive", rgb, "jpg", {"progressive": True}),
    ("jpeg_grey", grey, "jpg", {}),
    ("jpeg_cmyk", rgb.convert("CMYK"), "jpg", {"quality": 95}),
    ("png_rgb", rgb, "png", {}),
    ("png_grey", grey, "png", {}),
    ("png_alpha", rgba, "png", {}),
    ("png_grey_alpha", rgba.convert("LA"), "png", {}),
    ("png_palette", rgb.quantize(40), "png", {}),
    ("png_two_colours", grey.convert("1"), "png", {}),
    ("ppm", rgb, "ppm", {}),
    ("pgm", grey, "pgm", {}),
]
if features.check("webp"):
    files.append(("webp_lossless", rgb, "webp", {"lossless": True}))
    files.append(("webp_lossy", rgb, "webp", {"quality": 80}))
cases = []
for name, image, ending, options in files:
    image.save(f"{folder}/{name}.{ending}", **options)
    for mode, channels in (("RGB", 3), ("L", 1)):
        with Image.open(f"{folder}/{name}.{ending}") as opened:
            # Pillow's own way from colours with alpha or a palette to grey goes by other roads; torchvision's is by RGB.
            (opened.convert("RGB").convert(mode) if opened.mode not in ("L", "1") else opened.convert(mode)).save(f"{folder}/{name}.{mode}.want", format="PPM")
        cases.append(f"{name}_{mode} {name}.{ending} {name}.{mode}.want {channels} 0 0")
wide.save(f"{folder}/png_16_bits.png")
Image.fromarray((numpy.asarray(wide) >> 8).astype(numpy.uint8)).save(f"{folder}/png_16.want", format="PPM")
cases.append("png_16_bits png_16_bits.png png_16.want 1 0 0")
for height, width, to_height, to_width in [(61, 83, 32, 32), (61, 83, 61, 20), (61, 83, 7, 83), (40, 30, 224, 224), (500, 375, 224, 224),
                                           (375, 500, 256, 341), (9, 9, 1, 1), (1, 1, 5, 4), (100, 3, 33, 7), (13, 200, 13, 200)]:
    for mode, channels in (("RGB", 3), ("L", 1)):
        name = f"resize_{height}x{width}_to_{to_height}x{to_width}_{mode}"
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=numpy.uint8)).convert(mode)
        image.save(f"{folder}/{name}.ppm")
        image.resize((to_width, to_height), Image.Resampling.BILINEAR).save(f"{folder}/{name}.want", format="PPM")
        cases.append(f"{name} {name}.ppm {name}.want {channels} {to_height} {to_width}")
large = Image.fromarray(picture(900, 1300))
large.save(f"{folder}/large.jpg", quality=92)
with Image.open(f"{folder}/large.jpg") as opened:
    opened.draft("RGB", (1300 // 4, 900 // 4))  # decoded at a quarter
    opened.save(f"{folder}/large.want", format="PPM")
for name in [f"{name}.{ending}" for name, _, ending, _ in files if ending != "pgm"]:
    whole = open(f"{folder}/{name}", "rb").read()
    open(f"{folder}/{name}.cut", "wb").write(whole[: len(whole) * 2 // 3])
open(f"{folder}/cut", "w").write("\n".join(f"{name}.{ending}" for name, _, ending, _ in files if ending != "pgm") + "\n")
open(f"{folder}/cases", "w").write("\n".join(cases) + "\n")
