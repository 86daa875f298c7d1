#include "data/parquet_page.h"

#include <zlib.h>
#ifdef TANDEM_SNAPPY
#include <snappy.h>
#endif
#ifdef TANDEM_ZSTD
#include <zstd.h>
#endif

#include <iterator>

#include "base/error.h"
#include "data/lz4.h"

namespace tandem {
namespace {

enum Codec { uncompressed, snappy_codec, gzip_codec, zstd_codec = 6, lz4_codec };
constexpr std::string_view codec_names[] = {"none", "snappy", "gzip", "LZO", "Brotli", "Hadoop's LZ4", "zstd", "LZ4"};

}  // namespace

std::string_view unpack_page(std::string_view body, std::uint64_t size, int codec, std::deque<std::string>& pages, ReadBudget& budget,
                             const std::string& where) {
  const auto bad = [&](std::string_view what) { fail(ExitCode::data, where, ": ", what); };
  if (codec == uncompressed) {
    if (body.size() != size) bad("a page's size contradicts itself");
    return body;
  }
  budget.hold(size, where);
  std::string& to = pages.emplace_back(size, '\0');
  if (codec == gzip_codec) {
    z_stream z{};
    if (inflateInit2(&z, 32 + MAX_WBITS) != Z_OK) bad("zlib cannot start");
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
    z.avail_in = static_cast<uInt>(body.size());
    z.next_out = reinterpret_cast<Bytef*>(to.data());
    z.avail_out = static_cast<uInt>(to.size());
    const int state = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (state != Z_STREAM_END || z.avail_out != 0) bad("a page is damaged (gzip)");
    return to;
  }
#ifdef TANDEM_SNAPPY
  if (codec == snappy_codec) {
    std::size_t length = 0;
    if (!snappy::GetUncompressedLength(body.data(), body.size(), &length) || length != size ||
        !snappy::RawUncompress(body.data(), body.size(), to.data()))
      bad("a page is damaged (snappy)");
    return to;
  }
#endif
#ifdef TANDEM_ZSTD
  if (codec == zstd_codec) {
    if (ZSTD_decompress(to.data(), to.size(), body.data(), body.size()) != size) bad("a page is damaged (zstd)");
    return to;
  }
#endif
  if (codec == lz4_codec) {
    if (!unpack_lz4(body, to)) bad("a page is damaged (LZ4)");
    return to;
  }
  const bool known = codec >= 0 && codec < static_cast<int>(std::size(codec_names));
  fail(ExitCode::data, where, ": compressed by ", known ? codec_names[codec] : "an unknown codec",
       codec == snappy_codec || codec == zstd_codec ? ", which this build is without" : "",
       ": write it with snappy, gzip, zstd, lz4 or none");
}

}  // namespace tandem
