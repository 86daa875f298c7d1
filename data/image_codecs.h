// The decoders behind decode_image, one a library: each writes 8 bit grey or RGB.
#pragma once
#include "data/image.h"

namespace tandem {

// What errors name: which file, of which format; and the room that an image is decoded in.
struct ImagePlace {
  const std::string& where;
  const char* format;
  ImageRoom& room;
  [[noreturn]] void broken(std::string_view why) const { fail(ExitCode::data, where, ": broken ", format, ": ", why); }
  void check_size(std::uint64_t height, std::uint64_t width) const;
  // So much of a size that was checked, for each pixel.
  void take_room(std::uint64_t height, std::uint64_t width, std::uint64_t bytes_a_pixel) const {
    room.take(height * width * bytes_a_pixel);
  }
};

void decode_jpeg(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to);
void decode_png(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to);
void decode_webp(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to);
void decode_pnm(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to);

}  // namespace tandem
