// What augmentation does to the colours and the places of an image of bytes: Pillow's ImageEnhance, ImageOps and Image.transform, to
// their rounding, which torchvision's transforms call.
#pragma once
#include <array>

#include "data/image.h"

namespace tandem {

// Away from black, the mean grey, the grey picture and the smoothed one; factor 1 changes nothing.
void brightness(Image& image, double factor);
void contrast(Image& image, double factor);
void saturation(Image& image, double factor);  // "Color"
void sharpness(Image& image, double factor);
// Colours turn by this share of the circle, -0.5 to 0.5, in Pillow's HSV of bytes.
void hue(Image& image, double share);
void posterize(Image& image, int bits);
void solarize(Image& image, double threshold);  // values from it on are inverted
void auto_contrast(Image& image);
void equalize(Image& image);

// out(x, y) is in(a x + b y + c, d x + e y + f), coordinates of the pixels' middles, black outside.
using Affine = std::array<double, 6>;
enum class Between { nearest, linear };
void transform(Image& image, const Affine& matrix, Between between);
// About the middle, counterclockwise.
void turn(Image& image, double degrees, Between between);

}  // namespace tandem
