#include "data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/memory.h"

namespace tandem {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50, locator_mark = 0x07064b50;
constexpr std::size_t local_size = 30, entry_size = 46, end_size = 22, end64_size = 56, locator_size = 20;
constexpr std::uint64_t directory_limit = 64 << 20;
constexpr std::uint64_t deflate_ratio = 1032;  // no deflate stream grows by more

std::uint64_t get(std::string_view s, std::size_t at, std::size_t bytes) {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < bytes; ++i) v |= std::uint64_t{static_cast<unsigned char>(s[at + i])} << (8 * i);
  return v;
}

void put(std::string& s, std::uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
}
using Field = std::pair<std::uint64_t, int>;  // a number and its bytes
void put(std::string& to, std::initializer_list<Field> fields) {
  for (const auto& [value, bytes] : fields) put(to, value, bytes);
}

std::uint32_t crc_of(const void* data, std::size_t size, std::uint32_t before = 0) {
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(data), size));
}

constexpr std::size_t comment_size = 14;
std::string comment_of(std::uint32_t crc) {  // "crc32 0123abcd"
  std::string s = "crc32 ";
  for (int shift = 28; shift >= 0; shift -= 4) s += "0123456789abcdef"[crc >> shift & 15];
  return s;
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : path_(path.string()), file_(open_regular(path, ExitCode::data)) {
  size_ = static_cast<std::uint64_t>(file_.size);
  const std::uint64_t tail_size = std::min<std::uint64_t>(size_, locator_size + end_size + 0xFFFF);
  const std::string tail = bytes(size_ - tail_size, tail_size);
  std::string mark;
  put(mark, end_mark, 4);
  const std::size_t at = tail.rfind(mark);
  if (at == std::string::npos || tail.size() - at < end_size)
    fail(ExitCode::data, path_, ": not a zip archive, or truncated (no end record)", it_is(bytes(0, std::min<std::uint64_t>(size_, 512))));
  std::uint64_t members = get(tail, at + 10, 2), size = get(tail, at + 12, 4), offset = get(tail, at + 16, 4);
  if (at >= locator_size && get(tail, at - locator_size, 4) == locator_mark) {
    const std::string end64 = bytes(get(tail, at - locator_size + 8, 8), end64_size);
    if (get(end64, 0, 4) != end64_mark) fail(ExitCode::data, path_, ": the zip64 end record is damaged");
    members = get(end64, 32, 8);
    size = get(end64, 40, 8);
    offset = get(end64, 48, 8);
  }
  read_directory(offset, size, members);
}

std::string ZipReader::bytes(std::uint64_t offset, std::uint64_t count) {
  if (offset > size_ || count > size_ - offset)
    fail(ExitCode::data, path_, ": truncated or damaged: bytes ", offset, " to ", offset + count, " of a file of ", size_);
  std::string s = allocate(count, [&] { return std::string(count, '\0'); }, "a part of ", path_);
  read_exactly(file_.descriptor.get(), s.data(), count, static_cast<std::int64_t>(offset), path_);
  return s;
}

void ZipReader::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t members) {
  if (size > directory_limit) fail(ExitCode::data, path_, ": a zip directory of ", size, " bytes is beyond the limit");
  const std::string directory = bytes(offset, size);
  std::size_t at = 0;
  const auto need = [&](std::size_t count) {
    if (directory.size() - at < count) fail(ExitCode::data, path_, ": the zip directory is damaged");
  };
  for (std::uint64_t i = 0; i < members; ++i) {
    need(entry_size);
    if (get(directory, at, 4) != entry_mark) fail(ExitCode::data, path_, ": the zip directory is damaged");
    if (get(directory, at + 8, 2) & 1) fail(ExitCode::data, path_, ": encrypted members are not read");
    Member m{get(directory, at + 42, 4), get(directory, at + 20, 4), get(directory, at + 24, 4),
             static_cast<std::uint32_t>(get(directory, at + 16, 4)), static_cast<int>(get(directory, at + 10, 2))};
    const std::size_t name_size = get(directory, at + 28, 2), extra = get(directory, at + 30, 2), comment = get(directory, at + 32, 2);
    at += entry_size;
    need(name_size + extra + comment);
    std::string name = directory.substr(at, name_size);
    const std::string_view fields = std::string_view(directory).substr(at + name_size, extra);
    for (std::size_t f = 0; f + 4 <= fields.size();) {
      const std::size_t id = get(fields, f, 2), length = get(fields, f + 2, 2);
      f += 4;
      if (length > fields.size() - f) break;
      std::size_t p = f;
      for (std::uint64_t* value : {&m.size, &m.stored, &m.offset})  // zip64 holds those that were full, in this order
        if (id == 1 && *value == 0xFFFFFFFF && p + 8 <= f + length) {
          *value = get(fields, p, 8);
          p += 8;
        }
      f += length;
    }
    at += name_size + extra + comment;
    members_.insert_or_assign(std::move(name), m);
  }
}

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) names.push_back(name);
  return names;
}

std::vector<std::byte> ZipReader::read(std::string_view name) {
  const auto found = members_.find(name);
  if (found == members_.end()) fail(ExitCode::data, path_, ": no member '", name, "'");
  const Member& m = found->second;
  const std::string local = bytes(m.offset, local_size);
  if (get(local, 0, 4) != local_mark) fail(ExitCode::data, path_, ": member '", name, "' is damaged (no local header)");
  const std::uint64_t begin = m.offset + local_size + get(local, 26, 2) + get(local, 28, 2);
  const std::string stored = bytes(begin, m.stored);
  if (m.method != 0 && m.method != 8)
    fail(ExitCode::data, path_, ": member '", name, "' uses compression method ", m.method, ", expected stored or deflated");
  if (m.method == 0 ? m.size != m.stored : m.size / deflate_ratio > m.stored)
    fail(ExitCode::data, path_, ": member '", name, "' cannot hold ", m.size, " bytes in ", m.stored);
  inflated_ += m.size;  // members may lie in the same bytes. The sum fits: none grows by more than the ratio
  if (inflated_ > inflated_limit(size_))
    fail(ExitCode::data, path_, ": its ", size_, " bytes grow beyond ", inflated_limit(size_), " by member '", name,
         "': such an archive is only read uncompressed (numpy.savez)");
  std::vector<std::byte> out = allocate(m.size, [&] { return std::vector<std::byte>(m.size); }, "member '", name, "' of ", path_);
  if (m.method == 0) {
    if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
  } else {
    z_stream z{};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) fail(ExitCode::io, path_, ": zlib cannot start");
    std::size_t in_left = stored.size(), out_left = out.size();
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    int state = Z_OK;
    while (state == Z_OK) {
      const auto in = static_cast<uInt>(std::min<std::size_t>(in_left, 1u << 30));
      const auto room = static_cast<uInt>(std::min<std::size_t>(out_left, 1u << 30));
      z.avail_in = in;
      z.avail_out = room;
      state = inflate(&z, Z_NO_FLUSH);
      in_left -= in - z.avail_in;
      out_left -= room - z.avail_out;
    }
    inflateEnd(&z);
    if (state != Z_STREAM_END || out_left != 0) fail(ExitCode::data, path_, ": member '", name, "' is damaged (deflate)");
  }
  if (crc_of(out.data(), out.size()) != m.crc) fail(ExitCode::data, path_, ": member '", name, "' is damaged (its CRC differs)");
  return out;
}

bool ZipReader::whole() {
  if (size_ < comment_size) return false;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < size_ - comment_size;) {
    const std::string chunk = bytes(at, std::min<std::uint64_t>(size_ - comment_size - at, 1 << 20));
    crc = crc_of(chunk.data(), chunk.size(), crc);
    at += chunk.size();
  }
  return bytes(size_ - comment_size, comment_size) == comment_of(crc);
}

void ZipWriter::out(std::string_view bytes) {
  write_(bytes);
  crc_ = crc_of(bytes.data(), bytes.size(), crc_);
  written_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::initializer_list<std::string_view> parts) {
  const std::uint64_t offset = written_;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  for (const std::string_view part : parts) {
    crc = crc_of(part.data(), part.size(), crc);
    size += part.size();
  }
  // The fields that both headers share: version 4.5, no flags, stored, 1980-01-01, sizes in a zip64 field.
  std::string shared;
  put(shared, {{45, 2}, {0, 2}, {0, 2}, {0, 2}, {33, 2}, {crc, 4}, {0xFFFFFFFF, 4}, {0xFFFFFFFF, 4}, {name.size(), 2}});
  std::string sizes;
  put(sizes, {{size, 8}, {size, 8}});

  std::string header;
  put(header, local_mark, 4);
  header += shared;
  put(header, 4 + sizes.size(), 2);
  header += name;
  put(header, {{1, 2}, {sizes.size(), 2}});
  header += sizes;
  out(header);
  for (const std::string_view part : parts) out(part);

  put(directory_, {{entry_mark, 4}, {45, 2}});
  directory_ += shared;
  put(directory_, 4 + sizes.size() + 8, 2);                             // extra field
  put(directory_, {{0, 2}, {0, 2}, {0, 2}});  // comment, disk, internal attributes
  put(directory_, {{0, 4}, {0xFFFFFFFF, 4}});   // external attributes, offset: see zip64
  directory_ += name;
  put(directory_, {{1, 2}, {sizes.size() + 8, 2}});
  directory_ += sizes;
  put(directory_, offset, 8);
  ++members_;
}

void ZipWriter::finish() {
  const std::uint64_t offset = written_, end64 = offset + directory_.size();
  std::string end = directory_;
  put(end, {{end64_mark, 4}, {end64_size - 12, 8}, {45, 2}, {45, 2}, {0, 4}, {0, 4}});
  put(end, {{members_, 8}, {members_, 8}, {directory_.size(), 8}, {offset, 8}});
  put(end, {{locator_mark, 4}, {0, 4}, {end64, 8}, {1, 4}});
  put(end, {{end_mark, 4}, {0, 4}, {0xFFFF, 2}, {0xFFFF, 2}});
  put(end, {{0xFFFFFFFF, 4}, {0xFFFFFFFF, 4}, {comment_size, 2}});
  out(end);
  out(comment_of(crc_));
}

}  // namespace tandem
