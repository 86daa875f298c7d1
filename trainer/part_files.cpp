#include "trainer/part_files.h"

#include <algorithm>
#include <span>

#include "base/crc32c.h"
#include "graph/tensor_chunks.h"

namespace tandem {

std::filesystem::path folder_of_parts(const std::filesystem::path& index) { return index.parent_path() / "parts"; }

void PartFiles::fail_as_other(std::size_t part, const std::string& what) const {
  fail(ExitCode::data, path_of(part).string(), ": is not the part that ", index_.string(), " names: ", what);
}

std::shared_ptr<const InputFile> PartFiles::open(std::size_t part) const {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(open_, part, &decltype(open_)::value_type::first);
  if (known != open_.end()) {
    std::rotate(known, known + 1, open_.end());
    return open_.back().second;
  }
  const auto file = std::make_shared<const InputFile>(path_of(part), ExitCode::data);
  if (file->size() != parts_[part].bytes)
    fail_as_other(part, concat("it has ", file->size(), " bytes, expected ", parts_[part].bytes));
  if (FileState& seen = seen_[part]; seen.size < 0)
    seen = file->state();
  else if (file->state() != seen)
    fail(ExitCode::data, file->name(), ": has changed while it is in use: ", difference(seen, file->state()));
  if (open_.size() == most_open) open_.erase(open_.begin());
  open_.emplace_back(part, file);
  return file;
}

void PartFiles::check(std::size_t part) const {
  const std::shared_ptr<const InputFile> file = open(part);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(file->size(), tensor_chunk)));
  std::uint32_t sum = 0;
  for (std::int64_t at = 0; at < file->size(); at += std::ssize(piece)) {
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(piece), file->size() - at)));
    file->read(reinterpret_cast<char*>(bytes.data()), bytes.size(), at);
    sum = crc32c(sum, bytes);
  }
  if (sum != parts_[part].crc32c) fail_as_other(part, "its checksum differs");
}

}  // namespace tandem
