// PNG by libpng. Its errors come by longjmp, as image_jpeg.cpp says of libjpeg's.
#include "data/image_codecs.h"
#include "data/library_versions.h"

#ifdef TANDEM_PNG
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

namespace tandem {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::byte* next = nullptr;
  std::size_t left = 0;
  png_uint_32 height = 0, width = 0;
  int channels = 0;
  char message[160] = "";
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  PngReader& r = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(r.message, sizeof r.message, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep to, std::size_t bytes) {
  PngReader& r = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (bytes > r.left) png_error(png, "the file ends too early");
  std::memcpy(to, r.next, bytes);
  r.next += bytes;
  r.left -= bytes;
}

bool open(PngReader& r) {
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
  if (!r.png) return false;
  if (setjmp(png_jmpbuf(r.png))) return false;
  r.info = png_create_info_struct(r.png);
  if (!r.info) png_error(r.png, "no memory");
  png_set_read_fn(r.png, &r, take);
  png_set_keep_unknown_chunks(r.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts and profiles are not unpacked
  png_read_info(r.png, r.info);
  r.height = png_get_image_height(r.png, r.info);
  r.width = png_get_image_width(r.png, r.info);
  return true;
}

// 8 bits, no palette, no alpha.
bool start(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_set_expand(r.png);
  png_set_strip_16(r.png);
  png_set_strip_alpha(r.png);
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  r.channels = png_get_channels(r.png, r.info);
  return true;
}

bool read(PngReader& r, png_bytep* rows) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_read_image(r.png, rows);
  png_read_end(r.png, nullptr);
  return true;
}

}  // namespace

void decode_png(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to) {
  PngReader r;
  r.next = file.data();
  r.left = file.size();
  struct Close {
    PngReader& r;
    ~Close() {
      if (r.png) png_destroy_read_struct(&r.png, &r.info, nullptr);
    }
  } const close{r};
  if (!open(r)) place.broken(r.png ? r.message : "libpng does not start");
  place.check_size(r.height, r.width);
  constexpr std::uint64_t most_packing = 1100;  // of deflate, bytes for one
  if (std::uint64_t{r.height} * ((std::uint64_t{r.width} * png_get_bit_depth(r.png, r.info) + 7) / 8) > most_packing * file.size())
    place.broken(concat("its header says ", r.width, 'x', r.height, " pixels, which ", file.size(), " bytes cannot hold"));
  if (request.header_only) return;
  if (!start(r)) place.broken(r.message);
  place.take_room(r.height, r.width, static_cast<std::uint64_t>(r.channels));
  to.reshape(r.height, r.width, r.channels);
  std::vector<png_bytep> rows(r.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = to.pixels.data() + y * static_cast<std::size_t>(to.width * to.channels);
  if (!read(r, rows.data())) place.broken(r.message);
}

LibraryVersion png_library() { return {"libpng", png_get_libpng_ver(nullptr)}; }

}  // namespace tandem
#endif
