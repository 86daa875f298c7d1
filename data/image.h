// Image files to pixels: JPEG, PNG, WebP, PPM and PGM, told apart by their contents; resizing and cropping as Pillow does.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/preparation.h"

namespace tandem {

struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, channels]

  void reshape(std::int64_t h, std::int64_t w, std::int64_t c) {
    height = h;
    width = w;
    channels = c;
    pixels.resize(static_cast<std::size_t>(h * w * c));
  }
};

struct ImageRequest {
  std::int64_t channels = 3;  // 1: grey, by Pillow's weights; 3: RGB
  // A larger JPEG may be decoded at 1/2, 1/4 or 1/8 of its size while both sides stay at least twice these; 0: never.
  std::int64_t height = 0, width = 0;
  bool header_only = false;  // of check_image: no pixels are wanted
};

// Memory for images while they are decoded and resized, of all threads of the process together: data_limits::images_at_a_time, or one
// image's. Those for which there is none left wait, however many threads there are.
class ImageRoom {
 public:
  ImageRoom() = default;
  ImageRoom(const ImageRoom&) = delete;
  ImageRoom& operator=(const ImageRoom&) = delete;
  ~ImageRoom() { release(); }
  void take(std::uint64_t bytes);  // waits until others release theirs; once between two releases
  void release();
  // Of the process.
  struct Use {
    std::uint64_t bytes = 0;
    int waiting = 0;
  };
  static Use use();

 private:
  std::uint64_t taken_ = 0;
};

// Decodes one image into `to`, of which the memory is used again. Palettes, 16 bits, CMYK and alpha (dropped: the colour
// below it stays) become 8 bit grey or RGB. The orientation in a photograph's Exif is not applied, as in torchvision.
// Fails (data), naming `where`, on what is no image, on formats that are not read or of which the library is missing, on
// truncated and broken files, and on more pixels or passes over them than are read (limits.h).
void decode_image(std::span<const std::byte> file, const ImageRequest& request, const std::string& where, Image& to);
// The same by a thread of many: the image's room is kept until `room` is released.
void decode_image(std::span<const std::byte> file, const ImageRequest& request, const std::string& where, Image& to, ImageRoom& room);

// What can be told of a file without decoding it: fails as decode_image does on what is no image that is read, on a broken header, on
// too many pixels, and on JPEG and PNG files without their end.
void check_image(std::span<const std::byte> file, const std::string& where);

// The formats read, as errors and --version list them: "JPEG, PNG, WebP, PPM, PGM".
std::string image_formats();

struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// Pillow's BILINEAR and BICUBIC: filters that are as wide as the ratio where an image shrinks.
// The box of `from`, resized, the width first.
void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, Image& to, Filter filter = Filter::bilinear);
// Of such a result this window alone.
void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, const Box& window, Image& to,
                  Filter filter = Filter::bilinear);

// The box in the middle, as torchvision's CenterCrop has it; it must not be larger than the image.
Box centre_box(std::int64_t height, std::int64_t width, std::int64_t box_height, std::int64_t box_width);

}  // namespace tandem
