// JPEG by libjpeg(-turbo). Its errors come by longjmp, which may pass no C++ object with a destructor: what runs under
// setjmp here holds plain values only, and memory is taken between the calls.
#include "data/image_codecs.h"
#include "data/library_versions.h"
#include "data/limits.h"

#ifdef TANDEM_JPEG
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>
#include <jerror.h>

namespace tandem {
namespace {

struct Reader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void on_error(j_common_ptr info) {
  Reader& r = *static_cast<Reader*>(info->client_data);
  info->err->format_message(info, r.message);
  std::longjmp(r.jump, 1);
}

// Warnings are for pictures that can be shown all the same (bytes between markers); only a file that ends early is broken.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) on_error(info);
}

// Each scan goes over all blocks, however few bytes it has.
void on_progress(j_common_ptr info) {
  Reader& r = *static_cast<Reader*>(info->client_data);
  if (r.info.input_scan_number <= data_limits::scans) return;
  std::snprintf(r.message, sizeof r.message, "more than %d scans", data_limits::scans);
  std::longjmp(r.jump, 1);
}

bool open(Reader& r, const unsigned char* bytes, unsigned long size) {
  r.info.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = on_error;
  r.errors.emit_message = on_message;
  r.info.client_data = &r;
  if (setjmp(r.jump)) return false;
  jpeg_create_decompress(&r.info);
  r.info.client_data = &r;
  r.progress.progress_monitor = on_progress;
  r.info.progress = &r.progress;
  jpeg_mem_src(&r.info, bytes, size);
  jpeg_read_header(&r.info, TRUE);
  return true;
}

bool start(Reader& r, unsigned shrink) {
  if (setjmp(r.jump)) return false;
  const J_COLOR_SPACE have = r.info.jpeg_color_space;
  r.info.out_color_space = have == JCS_GRAYSCALE ? JCS_GRAYSCALE : have == JCS_CMYK || have == JCS_YCCK ? JCS_CMYK : JCS_RGB;
  r.info.scale_num = 1;
  r.info.scale_denom = shrink;
  jpeg_start_decompress(&r.info);
  return true;
}

bool read(Reader& r, unsigned char* to) {
  if (setjmp(r.jump)) return false;
  const std::size_t row = static_cast<std::size_t>(r.info.output_width) * static_cast<std::size_t>(r.info.output_components);
  while (r.info.output_scanline < r.info.output_height) {
    JSAMPROW line = to + r.info.output_scanline * row;
    jpeg_read_scanlines(&r.info, &line, 1);
  }
  jpeg_finish_decompress(&r.info);
  return true;
}

// As Pillow has it: stored inverted, as Adobe does, 255 is no ink.
void to_rgb(Image& image) {
  const std::uint8_t* from = image.pixels.data();
  std::uint8_t* to = image.pixels.data();
  for (std::int64_t i = 0; i < image.height * image.width; ++i, from += 4, to += 3) {
    const int white = from[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - from[c]) * white + 128;
      to[c] = static_cast<std::uint8_t>(white - ((product + (product >> 8)) >> 8));
    }
  }
  image.reshape(image.height, image.width, 3);
}

}  // namespace

void decode_jpeg(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to) {
  Reader r;
  struct Close {
    Reader& r;
    ~Close() { jpeg_destroy_decompress(&r.info); }
  } const close{r};
  const auto broken = [&] { place.broken(r.message); };
  if (!open(r, reinterpret_cast<const unsigned char*>(file.data()), file.size())) broken();
  place.check_size(r.info.image_height, r.info.image_width);
  // A block takes a bit at least, by arithmetic coding less.
  constexpr std::uint64_t most_blocks = 64;
  std::uint64_t blocks = 0;
  for (int c = 0; c < r.info.num_components; ++c)
    blocks += std::uint64_t{r.info.comp_info[c].width_in_blocks} * r.info.comp_info[c].height_in_blocks;
  if (blocks > most_blocks * file.size())
    place.broken(
        concat("its header says ", r.info.image_width, 'x', r.info.image_height, " pixels, which ", file.size(), " bytes cannot hold"));
  if (request.header_only) return;
  unsigned shrink = 1;
  if (request.height > 0 && request.width > 0)
    while (shrink < 8 && r.info.image_height / (2 * shrink) >= 2 * request.height && r.info.image_width / (2 * shrink) >= 2 * request.width)
      shrink *= 2;
  // Coefficients of all scans are kept, two bytes each.
  const auto components = static_cast<std::uint64_t>(r.info.num_components);
  place.take_room(r.info.image_height, r.info.image_width, components * (jpeg_has_multiple_scans(&r.info) ? 3 : 1));
  if (!start(r, shrink)) broken();
  to.reshape(r.info.output_height, r.info.output_width, r.info.output_components);
  if (!read(r, to.pixels.data())) broken();
  if (to.channels == 4) to_rgb(to);
}

LibraryVersion jpeg_library() {
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  const int v = LIBJPEG_TURBO_VERSION_NUMBER;
  return {"libjpeg-turbo", concat(v / 1'000'000, '.', v / 1000 % 1000, '.', v % 1000)};
#else
  return {"libjpeg", concat(JPEG_LIB_VERSION / 10, '.', JPEG_LIB_VERSION % 10)};
#endif
}

}  // namespace tandem
#endif
