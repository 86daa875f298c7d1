#include "data/image.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string_view>

#include "base/file_kind.h"
#include "data/image_codecs.h"
#include "data/limits.h"

namespace tandem {
namespace {

using Decoder = void (*)(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to);

struct Format {
  const char* name;
  std::string_view begins;   // at byte `at`
  std::size_t at;
  const char* library;       // that reads it; null: tandem itself, or nothing does
  Decoder decode;            // null: not read
  std::string_view ends{};   // where its data does; what follows is not looked at
};

using namespace std::string_view_literals;
constexpr Format formats[] = {
#ifdef TANDEM_JPEG
    {"JPEG", "\xff\xd8\xff"sv, 0, "libjpeg", decode_jpeg, "\xff\xd9"sv},
#else
    {"JPEG", "\xff\xd8\xff"sv, 0, "libjpeg", nullptr},
#endif
#ifdef TANDEM_PNG
    {"PNG", "\x89PNG\r\n\x1a\n"sv, 0, "libpng", decode_png, "IEND"sv},
#else
    {"PNG", "\x89PNG\r\n\x1a\n"sv, 0, "libpng", nullptr},
#endif
#ifdef TANDEM_WEBP
    {"WebP", "WEBP"sv, 8, "libwebp", decode_webp},
#else
    {"WebP", "WEBP"sv, 8, "libwebp", nullptr},
#endif
    {"PPM", "P6"sv, 0, nullptr, decode_pnm},
    {"PGM", "P5"sv, 0, nullptr, decode_pnm},
    {"GIF", "GIF8"sv, 0, nullptr, nullptr},
    {"BMP", "BM"sv, 0, nullptr, nullptr},
    {"TIFF", "II*\0"sv, 0, nullptr, nullptr},
    {"TIFF", "MM\0*"sv, 0, nullptr, nullptr},
    {"AVIF or HEIC", "ftyp"sv, 4, nullptr, nullptr},
};

// As Pillow converts: ITU-R 601, in 16 bits.
void set_channels(Image& image, std::int64_t channels) {
  if (image.channels == channels) return;
  const std::int64_t pixels = image.height * image.width;
  if (channels == 1) {
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t* p = image.pixels.data() + 3 * i;
      image.pixels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
    }
    image.reshape(image.height, image.width, 1);
  } else {
    image.reshape(image.height, image.width, 3);
    for (std::int64_t i = pixels - 1; i >= 0; --i) std::memset(image.pixels.data() + 3 * i, image.pixels[static_cast<std::size_t>(i)], 3);
  }
}

}  // namespace

void ImagePlace::check_size(std::uint64_t height, std::uint64_t width) const {
  if (height == 0 || width == 0) broken(concat("it is ", width, 'x', height, " pixels"));
  if (height > data_limits::pixels || width > data_limits::pixels || height * width > data_limits::pixels)
    fail(ExitCode::data, where, ": a ", format, " of ", width, 'x', height, " pixels, more than ", data_limits::pixels, " are not read");
  if (height > data_limits::side || width > data_limits::side)
    fail(ExitCode::data, where, ": a ", format, " of ", width, 'x', height, " pixels, a side of more than ", data_limits::side,
         " is not read");
}

namespace {

// The process's, as its memory is: feeds of several data sets and models decode at the same time.
struct SharedRoom {
  std::mutex mutex;
  std::condition_variable changed;
  ImageRoom::Use use;
};
SharedRoom& shared_room() {
  static SharedRoom room;
  return room;
}

}  // namespace

void ImageRoom::take(std::uint64_t bytes) {
  SharedRoom& shared = shared_room();
  std::unique_lock lock(shared.mutex);
  ++shared.use.waiting;
  shared.changed.wait(lock, [&] { return shared.use.bytes == 0 || shared.use.bytes + bytes <= data_limits::images_at_a_time; });
  --shared.use.waiting;
  shared.use.bytes += bytes;
  taken_ += bytes;
}

void ImageRoom::release() {
  if (taken_ == 0) return;
  SharedRoom& shared = shared_room();
  {
    const std::lock_guard lock(shared.mutex);
    shared.use.bytes -= taken_;
  }
  taken_ = 0;
  shared.changed.notify_all();
}

ImageRoom::Use ImageRoom::use() {
  const std::lock_guard lock(shared_room().mutex);
  return shared_room().use;
}

// P5 or P6, width, height, the largest value, one space, then bytes (two each, high first, beyond 255).
// Source: netpbm's descriptions of ppm and pgm.
void decode_pnm(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to) {
  const auto at = [&](std::size_t i) -> unsigned { return i < file.size() ? std::to_integer<unsigned>(file[i]) : 0; };
  const auto space = [](unsigned c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::size_t i = 2;
  const auto number = [&] {
    for (; i < file.size() && (space(at(i)) || at(i) == '#'); ++i)
      if (at(i) == '#')
        while (i < file.size() && at(i) != '\n') ++i;
    std::uint64_t n = 0;
    const std::size_t begin = i;
    for (; at(i) >= '0' && at(i) <= '9' && i < begin + 10; ++i) n = n * 10 + (at(i) - '0');
    if (i == begin) place.broken("its header holds no three numbers");
    return n;
  };
  const std::uint64_t width = number(), height = number(), most = number();
  place.check_size(height, width);
  if (most == 0 || most > 65535) place.broken(concat("its largest value is ", most));
  const std::uint64_t channels = at(1) == '6' ? 3 : 1, values = height * width * channels, each = most > 255 ? 2 : 1;
  ++i;
  if (i > file.size() || file.size() - i < values * each)
    place.broken(concat("the file ends too early: ", width, 'x', height, " pixels take ", values * each, " bytes, ",
                        file.size() - std::min(i, file.size()), " follow"));
  if (request.header_only) return;
  place.take_room(height, width, 3);
  to.reshape(static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), static_cast<std::int64_t>(channels));
  for (std::uint64_t v = 0; v < values; ++v, i += each) {
    const std::uint64_t value = each == 2 ? at(i) << 8 | at(i + 1) : at(i);
    to.pixels[v] = static_cast<std::uint8_t>(most == 255 ? value : (std::min(value, most) * 255 + most / 2) / most);
  }
}

std::string image_formats() {
  std::string names;
  for (const Format& f : formats)
    if (f.decode) names += concat(names.empty() ? "" : ", ", f.name);
  return names;
}

void check_image(std::span<const std::byte> file, const std::string& where) {
  Image none;
  decode_image(file, {.header_only = true}, where, none);
}

void decode_image(std::span<const std::byte> file, const ImageRequest& request, const std::string& where, Image& to) {
  ImageRoom room;
  decode_image(file, request, where, to, room);
}

void decode_image(std::span<const std::byte> file, const ImageRequest& request, const std::string& where, Image& to, ImageRoom& room) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.empty()) fail(ExitCode::data, where, ": an empty file, expected an image");
  for (const Format& f : formats) {
    if (text.size() < f.at || !text.substr(f.at).starts_with(f.begins)) continue;
    if (f.decode) {
      f.decode(file, request, {where, f.name, room}, to);
      if (!request.header_only) return set_channels(to, request.channels);
      if (text.rfind(f.ends) == std::string_view::npos) ImagePlace{where, f.name, room}.broken("the file ends too early");
      return;
    }
    if (f.library)
      fail(ExitCode::data, where, ": a ", f.name, ", for which this tandem was built without ", f.library, "; it reads ", image_formats());
    fail(ExitCode::data, where, ": a ", f.name, ", which is not read: convert it to one of ", image_formats());
  }
  fail(ExitCode::data, where, ": not an image (", image_formats(), ')', it_is(text));
}

}  // namespace tandem
