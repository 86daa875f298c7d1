// Any bytes as an image file: looked at, decoded as a model of colours and one of greys wants it, and resized.
#include <zlib.h>

#include <algorithm>

#include "data/image.h"
#include "data/prepare.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

// Sizes of an image, and of its pieces.
constexpr std::uint32_t sizes[] = {0,     1,     2,     7,      8,      9,       255,        256,        1000,       16383,     16384,
                                   65500, 65535, 65536, 131072, 131073, 1000000, 0x07ffffff, 0x7fffffff, 0x80000000, 0xffffffff};

std::string big(std::uint32_t v, int bytes) {
  std::string s;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) s += static_cast<char>(v >> shift);
  return s;
}
std::uint32_t number(const std::string& s, std::size_t at, int bytes) {
  std::uint32_t v = 0;
  for (int i = 0; i < bytes; ++i) v = v << 8 | static_cast<unsigned char>(s[at + static_cast<std::size_t>(i)]);
  return v;
}

// Chunks are exchanged, repeated, left out or changed, and their sums made right again.
void mutate_png(std::string& file, Random& random) {
  std::vector<std::string> chunks;
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = number(file, at, 4);
    if (length > file.size() - at - 12) break;
    chunks.push_back(file.substr(at + 4, length + 4));
    at += length + 12;
  }
  if (chunks.empty()) return mutate_bytes(file, random);
  std::string& chunk = random.of(chunks);
  switch (random.below(6)) {
    case 0: std::swap(chunk, random.of(chunks)); break;
    case 1:
      chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(random.below(chunks.size())), 1 + random.below(3), std::string(chunk));
      break;
    case 2: chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(&chunk - chunks.data())); break;
    case 3:
      if (chunks[0].size() >= 12) chunks[0].replace(4 + 4 * random.below(2), 4, big(random.of(sizes), 4));
      break;
    default: mutate_bytes(chunk, random);
  }
  file.resize(8);
  for (const std::string& c : chunks)
    file += big(static_cast<std::uint32_t>(std::max<std::size_t>(c.size(), 4) - 4), 4) + c +
            big(static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(c.data()), c.size())), 4);
}

// Segments, each from its marker to the next.
void mutate_jpeg(std::string& file, Random& random) {
  std::vector<std::string> segments{""};
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file[i] == '\xff' && i + 1 < file.size() && file[i + 1] != '\0') segments.emplace_back();
    segments.back() += file[i];
  }
  std::string& segment = random.of(segments);
  switch (random.below(6)) {
    case 0: std::swap(segment, random.of(segments)); break;
    case 1:
      segments.insert(segments.begin() + static_cast<std::ptrdiff_t>(random.below(segments.size())),
                      1 + random.below(random.one_in(8) ? 100 : 3), std::string(segment));
      break;
    case 2: segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(&segment - segments.data())); break;
    case 3:
      for (std::string& s : segments)
        if (s.size() > 9 && (s[1] & 0xf0) == static_cast<char>(0xc0 & 0xf0) && s[1] != '\xc4')
          s.replace(5 + 2 * random.below(2), 2, big(random.of(sizes), 2));
      break;
    default: mutate_bytes(segment, random);
  }
  file.clear();
  for (const std::string& s : segments) file += s;
}

}  // namespace
}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  static Image image, resized;
  fuzz::run([&] { check_image(file, "image"); });
  for (const ImageRequest& request : {ImageRequest{.channels = 3}, ImageRequest{.channels = 1, .height = 8, .width = 8}})
    fuzz::run([&] {
      decode_image(file, request, "image", image);
      fit_image(image, {}, 8, 8, resized);
    });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string file = fuzz::text_of(data, size);
  if (random.one_in(8)) {
    fuzz::mutate_bytes(file, random);
  } else if (file.starts_with("\x89PNG")) {
    fuzz::mutate_png(file, random);
  } else if (file.starts_with("\xff\xd8")) {
    fuzz::mutate_jpeg(file, random);
  } else if (file.starts_with("P5") || file.starts_with("P6")) {
    fuzz::mutate_text(file, random);
  } else {
    fuzz::mutate_bytes(file, random);
  }
  return fuzz::give(file, data, room);
}
