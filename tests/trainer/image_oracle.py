"""Writes image files and what Pillow makes of them: image_oracle.py FOLDER. A line of FOLDER/cases is NAME FILE WANTED CHANNELS
HEIGHT WIDTH FILTER; HEIGHT 0: decoded alone, else resized. A line of FOLDER/operations is NAME AMOUNT FILE WANTED. Exits 3 where a
package is missing."""
import operator
import sys

try:
    import numpy
    from PIL import Image, ImageEnhance, ImageOps, features
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
turned = Image.Exif()
turned[0x0112] = 6  # a camera held upright: Image.open, and so torchvision, leaves it as it is
files = [
    ("jpeg_rgb", rgb, "jpg", {"quality": 90}),
    ("jpeg_444", rgb, "jpg", {"quality": 75, "subsampling": 0}),
    ("jpeg_progressive", rgb, "jpg", {"progressive": True}),
    ("jpeg_turned", rgb, "jpg", {"exif": turned}),
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
        cases.append(f"{name}_{mode} {name}.{ending} {name}.{mode}.want {channels} 0 0 -")
wide.save(f"{folder}/png_16_bits.png")
Image.fromarray((numpy.asarray(wide) >> 8).astype(numpy.uint8)).save(f"{folder}/png_16.want", format="PPM")
cases.append("png_16_bits png_16_bits.png png_16.want 1 0 0 -")
for height, width, to_height, to_width in [(61, 83, 32, 32), (61, 83, 61, 20), (61, 83, 7, 83), (40, 30, 224, 224), (500, 375, 224, 224),
                                           (375, 500, 256, 341), (9, 9, 1, 1), (1, 1, 5, 4), (100, 3, 33, 7), (13, 200, 13, 200)]:
    for mode, channels in (("RGB", 3), ("L", 1)):
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=numpy.uint8)).convert(mode)
        for kind in ("bilinear", "bicubic"):
            name = f"resize_{height}x{width}_to_{to_height}x{to_width}_{mode}_{kind}"
            image.save(f"{folder}/{name}.ppm")
            image.resize((to_width, to_height), Image.Resampling[kind.upper()]).save(f"{folder}/{name}.want", format="PPM")
            cases.append(f"{name} {name}.ppm {name}.want {channels} {to_height} {to_width} {kind}")
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


def hue(image, share):  # torchvision's adjust_hue of a Pillow image
    h, s, v = image.convert("HSV").split()
    turned = numpy.array(h, dtype=numpy.uint8) + numpy.int32(share * 255).astype(numpy.uint8)
    return Image.merge("HSV", (Image.fromarray(turned, "L"), s, v)).convert(image.mode)


def affine(matrix):
    return lambda image, v: image.transform(image.size, Image.Transform.AFFINE, [m(v) if callable(m) else m for m in matrix], Image.Resampling.NEAREST)


def enhance(kind):
    return lambda image, v: kind(image).enhance(1 + v)


# By torchvision's names, as its _apply_op calls Pillow.
operations = {
    "ShearX": (affine((1, float, 0, 0, 1, 0)), (0.2, -0.9)), "ShearY": (affine((1, 0, 0, float, 1, 0)), (0.2, -0.9)),
    "TranslateX": (affine((1, 0, operator.neg, 0, 1, 0)), (7, -12)), "TranslateY": (affine((1, 0, 0, 0, 1, operator.neg)), (7, -12)),
    "Rotate": (lambda image, v: image.rotate(v), (25, -100)),
    "Brightness": (enhance(ImageEnhance.Brightness), (0.7, -0.4, -0.99)), "Color": (enhance(ImageEnhance.Color), (0.7, -0.4, -0.99)),
    "Contrast": (enhance(ImageEnhance.Contrast), (0.7, -0.4, -0.99)), "Sharpness": (enhance(ImageEnhance.Sharpness), (0.7, -0.4, -0.99)),
    "Posterize": (lambda image, v: ImageOps.posterize(image, 8 - v), (1, 4)), "Solarize": (lambda image, v: ImageOps.solarize(image, 255 - v), (0, 76.5, 200)),
    "AutoContrast": (lambda image, v: ImageOps.autocontrast(image), (0,)), "Equalize": (lambda image, v: ImageOps.equalize(image), (0,)),
    "hue": (hue, (0.1, -0.3, 0.5)),
}
photograph = Image.fromarray((picture(61, 83) * 0.6 + 30).astype(numpy.uint8))
photograph.save(f"{folder}/photograph.ppm")
with open(f"{folder}/operations", "w") as file:
    for name, (apply, amounts) in operations.items():
        for amount in amounts:
            apply(photograph, amount).save(f"{folder}/{name}_{amount}.want", format="PPM")
            file.write(f"{name} {amount} photograph.ppm {name}_{amount}.want\n")
