#include "data/data_file.h"

#include <glob.h>
#include <zlib.h>
#ifdef TANDEM_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/spec.h"

namespace tandem {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18;
constexpr std::size_t most_files = 1 << 20;

// "a{1..3}b" and "a{x,y}b": each in the braces' place.
std::vector<std::string> without_braces(const std::string& pattern) {
  const std::size_t open = pattern.find('{'), close = pattern.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {pattern};
  const std::string head = pattern.substr(0, open), inner = pattern.substr(open + 1, close - open - 1);
  std::vector<std::string> middles = split(inner, ',');
  if (const std::size_t dots = inner.find(".."); dots != std::string::npos) {
    const std::string first = inner.substr(0, dots), last = inner.substr(dots + 2);
    const std::int64_t from = parse_integer(first, concat("data '", pattern, "'")),
                       to = parse_integer(last, concat("data '", pattern, "'"));
    if (from < 0 || to < from || to - from >= static_cast<std::int64_t>(most_files))
      fail(ExitCode::usage, "data '", pattern, "': {", inner, "} is no range of at most ", most_files, " numbers");
    middles.clear();
    for (std::int64_t i = from; i <= to; ++i) {
      std::string number = std::to_string(i);
      if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
      middles.push_back(number);
    }
  }
  std::vector<std::string> all;
  for (const std::string& rest : without_braces(pattern.substr(close + 1)))
    for (const std::string& middle : middles) {
      all.push_back(head + middle + rest);
      if (all.size() > most_files) fail(ExitCode::usage, "data '", pattern, "' names more than ", most_files, " files");
    }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::string compressions() {
  std::string names = "gzip", pages = "lz4";
#ifdef TANDEM_ZSTD
  names += ", zstd";
#endif
#ifdef TANDEM_SNAPPY
  pages = "snappy, " + pages;
#endif
  return concat(names, "; pages of Parquet also ", pages);
}

std::vector<std::string> files_of(const std::string& argument) {
  std::error_code ignored;
  if (std::filesystem::exists(argument, ignored)) return {argument};
  std::vector<std::string> files;
  for (const std::string& name : without_braces(argument)) {
    if (name.find_first_of("*?[") == std::string::npos) {
      files.push_back(name);
      continue;
    }
    glob_t found{};
    const int state = ::glob(name.c_str(), GLOB_ERR, nullptr, &found);
    const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, ::globfree);
    if (state != 0) fail(ExitCode::io, name, ": no file fits this pattern");
    files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  return files;
}

DataFile::DataFile(const std::filesystem::path& path) : name_(path.string()), file_(path, ExitCode::data) {
  size_ = static_cast<std::uint64_t>(file_.size());
  const std::string magic = read(0, std::min<std::size_t>(size_, 4));
  const std::uint64_t stored = size_;
  if (magic.starts_with("\x1f\x8b"))
    gunzip(stored);
  else if (magic == "\x28\xb5\x2f\xfd")
    unzstd(stored);
  if (!unpacked_) return;
  unpacked_->finish();
  size_ = unpacked_->size();
}

void DataFile::append(std::span<const std::byte> bytes, std::uint64_t stored) {
  unpacked_->append(bytes);
  if (unpacked_->size() > inflated_limit(stored))
    fail(ExitCode::data, name_, ": its ", stored, " bytes grow beyond ", inflated_limit(stored),
         " bytes: such a file is only read uncompressed");
}

void DataFile::gunzip(std::uint64_t stored) {
  z_stream z{};
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) fail(ExitCode::io, name_, ": zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&z, inflateEnd);
  Spool to(name_);
  unpacked_ = std::move(to);
  std::vector<std::byte> out(piece);
  const auto source = [&](std::uint64_t offset) {  // the file's own bytes
    std::string s(std::min<std::uint64_t>(piece, stored - offset), '\0');
    file_.read(s.data(), s.size(), static_cast<std::int64_t>(offset));
    return s;
  };
  int state = Z_OK;
  for (std::uint64_t offset = 0; offset < stored;) {
    std::string in = source(offset);
    offset += in.size();
    z.next_in = reinterpret_cast<Bytef*>(in.data());
    z.avail_in = static_cast<uInt>(in.size());
    do {
      if (state == Z_STREAM_END && z.avail_in > 0) inflateReset(&z);  // members one after another
      z.next_out = reinterpret_cast<Bytef*>(out.data());
      z.avail_out = static_cast<uInt>(out.size());
      state = inflate(&z, Z_NO_FLUSH);
      if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
        fail(ExitCode::data, name_, ": the gzip data is damaged near byte ", offset - z.avail_in, ": ", z.msg ? z.msg : "unreadable");
      append(std::span(out).first(out.size() - z.avail_out), stored);
    } while (z.avail_out == 0 || (z.avail_in > 0 && state == Z_STREAM_END));
  }
  if (state != Z_STREAM_END) fail(ExitCode::data, name_, ": the gzip data is damaged: it ends too early");
}

#ifdef TANDEM_ZSTD
void DataFile::unzstd(std::uint64_t stored) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) fail(ExitCode::io, name_, ": zstd cannot start");
  Spool to(name_);
  unpacked_ = std::move(to);
  std::vector<std::byte> out(piece);
  std::size_t left = 1;
  for (std::uint64_t offset = 0; offset < stored;) {
    std::string in(std::min<std::uint64_t>(piece, stored - offset), '\0');
    file_.read(in.data(), in.size(), static_cast<std::int64_t>(offset));
    offset += in.size();
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    for (bool full = true; from.pos < from.size || (full && left != 0);) {
      ZSTD_outBuffer into{out.data(), out.size(), 0};
      left = ZSTD_decompressStream(context.get(), &into, &from);
      if (ZSTD_isError(left))
        fail(ExitCode::data, name_, ": the zstd data is damaged near byte ", offset - in.size() + from.pos, ": ", ZSTD_getErrorName(left));
      append(std::span(out).first(into.pos), stored);
      full = into.pos == into.size;
    }
  }
  if (left != 0) fail(ExitCode::data, name_, ": the zstd data is damaged: it ends too early");
}
#else
void DataFile::unzstd(std::uint64_t) {
  fail(ExitCode::data, name_, ": compressed by zstd, which this build is without (libzstd was not found): unpack it by zstd -d");
}
#endif

void DataFile::read(std::uint64_t offset, std::size_t count, std::byte* to) const {
  if (offset > size_ || count > size_ - offset)
    fail(ExitCode::data, name_, ": truncated: bytes ", offset, " to ", offset + count, " are wanted of ", size_);
  if (unpacked_)
    unpacked_->read(offset, count, to);
  else
    file_.read(reinterpret_cast<char*>(to), count, static_cast<std::int64_t>(offset));
}

std::string DataFile::read(std::uint64_t offset, std::size_t count) const {
  if (offset > size_ || count > size_ - offset)  // before so many bytes are taken
    fail(ExitCode::data, name_, ": truncated: bytes ", offset, " to ", offset + count, " are wanted of ", size_);
  std::string s(count, '\0');
  read(offset, count, reinterpret_cast<std::byte*>(s.data()));
  return s;
}

bool FileReader::fill() {
  if (offset_ == file_.size()) return false;
  buffer_.resize(std::min<std::uint64_t>(piece, file_.size() - offset_));
  file_.read(offset_, buffer_.size(), reinterpret_cast<std::byte*>(buffer_.data()));
  offset_ += buffer_.size();
  at_ = 0;
  end_ = buffer_.size();
  return true;
}

bool FileReader::line(std::string& to, std::size_t most) {
  to.clear();
  if (done()) return false;
  do {
    const std::size_t end = buffer_.find('\n', at_);
    to.append(buffer_, at_, std::min(end, end_) - at_);
    if (to.size() > most) fail(ExitCode::data, file_.name(), ": a line of more than ", most, " bytes before byte ", offset_);
    at_ = std::min(end == std::string::npos ? end_ : end + 1, end_);
    if (end != std::string::npos) break;
  } while (!done());
  if (to.ends_with('\r')) to.pop_back();
  return true;
}

}  // namespace tandem
