// WebP by libwebp: its first frame, where it moves it is refused.
#include "data/image_codecs.h"
#include "data/library_versions.h"

#ifdef TANDEM_WEBP
#include <webp/decode.h>

namespace tandem {

void decode_webp(std::span<const std::byte> file, const ImageRequest& request, const ImagePlace& place, Image& to) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, file.size(), &features) != VP8_STATUS_OK) place.broken("its header cannot be read");
  if (features.has_animation) place.broken("it is animated");
  place.check_size(static_cast<std::uint64_t>(features.height), static_cast<std::uint64_t>(features.width));
  if (request.header_only) return;
  constexpr std::uint64_t of_library = 4;  // a pixel, where it is lossless
  place.take_room(static_cast<std::uint64_t>(features.height), static_cast<std::uint64_t>(features.width), 3 + of_library);
  to.reshape(features.height, features.width, 3);
  if (!WebPDecodeRGBInto(bytes, file.size(), to.pixels.data(), to.pixels.size(), 3 * features.width))
    place.broken("it is truncated or damaged");
}

LibraryVersion webp_library() {
  const int v = WebPGetDecoderVersion();
  return {"libwebp", concat(v >> 16, '.', v >> 8 & 255, '.', v & 255)};
}

}  // namespace tandem
#endif
