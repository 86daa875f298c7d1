// Safetensors (runtime/safetensors.h) whose metadata begin the header. Our checksum
// stands in the metadata at a fixed place; it is over the whole file with zeros in its own place.
#include "trainer/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/file_kind.h"
#include "base/space.h"
#include "graph/file_values.h"
#include "graph/tensor_chunks.h"
#include "data/npy.h"
#include "data/zip.h"
#include "trainer/checkpoint_names.h"
#include "trainer/checkpoint_parts.h"

namespace tandem {
namespace {

constexpr std::string_view version = "tandem checkpoint 3", zip_version = "tandem checkpoint 2";
constexpr std::string_view index_version = "tandem checkpoint index 1";
constexpr std::string_view begin = R"({"__metadata__":{"crc32":")", no_sum = "00000000";
constexpr std::string_view folders[] = {"weights/", "optimizer/"};

std::uint32_t add_to(std::uint32_t sum, const void* bytes, std::size_t size) {
  // zlib begins anew where there is nothing
  return size == 0 ? sum : static_cast<std::uint32_t>(crc32_z(sum, static_cast<const Bytef*>(bytes), size));
}

void each(const EachTensor& weights, const EachTensor& optimizer,
          const std::function<void(std::string_view, const NamedTensor&)>& work) {
  weights([&](const NamedTensor& t) { work(folders[0], t); });
  optimizer([&](const NamedTensor& t) { work(folders[1], t); });
}

Checkpoint read_zip(const std::filesystem::path& path) {
  constexpr std::string_view ending = ".npy";
  constexpr const char* state_member = "state.json";
  ZipReader zip(path);
  if (!zip.whole())
    fail(ExitCode::data, path.string(), ": is damaged (its checksum differs), or not a checkpoint of this version ('", version, "')");
  if (!zip.has(state_member)) fail(ExitCode::data, path.string(), ": not a checkpoint (no ", state_member, ")");
  Checkpoint checkpoint;
  const std::vector<std::byte> state = zip.read(state_member);
  checkpoint.state = Json::parse({reinterpret_cast<const char*>(state.data()), state.size()});
  const Json* found = checkpoint.state.find("version");
  if (!found || found->text() != zip_version) fail(ExitCode::data, path.string(), ": not a checkpoint of this version ('", version, "')");
  for (const std::string& member : zip.names())
    for (const auto& [folder, list] : {std::pair{folders[0], &checkpoint.weights}, {folders[1], &checkpoint.optimizer}})
      if (member.starts_with(folder) && member.ends_with(ending))
        list->push_back({member.substr(folder.size(), member.size() - folder.size() - ending.size()),
                         parse_npy(zip.read(member), concat(path.string(), ": ", member))});
  return checkpoint;
}

std::string head_of(const InputFile& file) {
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 512)), '\0');
  file.read(head.data(), head.size(), 0);
  return head;
}

Tensor values_at(const std::shared_ptr<const InputFile>& file, const TensorType& type, std::int64_t at) {
  constexpr std::int64_t small = std::int64_t{64} << 10;
  const FileValues values(file, at);
  if (bytes_of(type) >= small) return {type, std::make_shared<FileValues>(values)};
  Tensor tensor(type);
  values.read(tensor.write(), 0);
  return tensor;
}

// The type of a tensor of the header, which lies at `at` of the data.
TensorType type_of(const Json& entry, std::int64_t at, std::int64_t end_of_data) {
  const TensorType type = safetensors_type(entry);
  const std::int64_t bytes = bytes_of(type);
  const Json::Array& offsets = entry.at("data_offsets").array();
  if (offsets.size() == 2 && offsets[0].integer() == at && offsets[1].integer() > end_of_data) fail("is truncated");
  if (offsets.size() != 2 || offsets[0].integer() != at || bytes > end_of_data - at || offsets[1].integer() != at + bytes)
    fail("data_offsets do not fit its type and place");
  return type;
}

// Into the header, whose own place for it holds zeros; data follow of that sum and size.
void put_sum(std::string& text, std::uint32_t of_data, std::int64_t bytes) {
  const auto sum = static_cast<std::uint32_t>(crc32_combine(add_to(0, text.data(), text.size()), of_data, bytes));
  text.replace(sizeof(std::uint64_t) + begin.size(), no_sum.size(), fmt::format("{:08x}", sum));
}

// A file whose header was read.
struct Opened {
  std::shared_ptr<const InputFile> file;
  Json header{};
  std::int64_t data = 0, size = 0;  // where the values begin, and their bytes
  std::string written{};            // the checksum that it has
  std::uint32_t sum = 0;            // of its header
  bool is_zip = false;              // an earlier version's, which has no such header
  bool is_index = false;
};

// Where an error was caught: of the files, which it names, it goes on; what their text makes impossible is damage.
[[noreturn]] void fail_as_damaged(const std::filesystem::path& path, const Error& e) {
  if (e.code() == ExitCode::io || e.code() == ExitCode::data) throw;
  fail(ExitCode::data, path.string(), ": is damaged (", e.what(), ")");
}

void compare_sums(const std::filesystem::path& path, const Opened& o, std::uint32_t sum) {
  if (o.written != fmt::format("{:08x}", sum)) fail(ExitCode::data, path.string(), ": is damaged (its checksum differs)");
}

Opened open_checkpoint(const std::filesystem::path& path) {
  const std::string name = path.string();
  Opened o{.file = std::make_shared<InputFile>(path, ExitCode::data)};
  std::array<char, 8> length{};
  if (o.file->size() < static_cast<std::int64_t>(length.size())) fail(ExitCode::data, name, ": is truncated, or not a checkpoint");
  o.file->read(length.data(), length.size(), 0);
  o.is_zip = std::string_view(length.data(), 2) == "PK";
  if (o.is_zip) return o;
  std::int64_t count = 0;
  std::memcpy(&count, length.data(), length.size());
  o.data = 8 + count;
  o.size = o.file->size() - o.data;
  if (count < static_cast<std::int64_t>(begin.size() + no_sum.size()) || count > largest_safetensors_header || o.size < 0)
    fail(ExitCode::data, name, ": is truncated or damaged, or not a checkpoint", it_is(head_of(*o.file)));
  std::string text(static_cast<std::size_t>(count), '\0');
  o.file->read(text.data(), text.size(), 8);
  if (!text.starts_with(begin))
    fail(ExitCode::data, name, ": is damaged, or not a checkpoint of this version ('", version, "')", it_is(head_of(*o.file)));
  o.written = text.substr(begin.size(), no_sum.size());
  text.replace(begin.size(), no_sum.size(), no_sum);
  o.sum = add_to(add_to(0, length.data(), length.size()), text.data(), text.size());
  try {
    o.header = Json::parse(text);
    const std::string& format = o.header.at("__metadata__").at("format").text();
    o.is_index = format == index_version;
    if (format != version && !o.is_index) fail("is of the version '", format, "', not of '", version, "'");
  } catch (const Error& e) {
    fail_as_damaged(path, e);
  }
  return o;
}

// Of one file, whose values' bytes are read for the checksum where `check` is.
void read_values(const std::filesystem::path& path, const Opened& o, bool check, Checkpoint& checkpoint) {
  std::int64_t at = 0;
  std::uint32_t sum = o.sum;
  for (std::size_t i = 1; i < o.header.object().size(); ++i) {
    const auto& [key, entry] = o.header.object()[i];
    Tensor tensor = values_at(o.file, type_of(entry, at, o.size), o.data + at);
    if (check)
      each_chunk(tensor, [&](std::span<const std::byte> bytes, std::int64_t) { sum = add_to(sum, bytes.data(), bytes.size()); });
    at += tensor.byte_size();
    for (const auto& [folder, list] : {std::pair{folders[0], &checkpoint.weights}, {folders[1], &checkpoint.optimizer}})
      if (key.starts_with(folder)) list->push_back({unescaped(key.substr(folder.size())), std::move(tensor)});
  }
  if (at != o.size) fail("is truncated, or longer than its tensors");
  if (check) compare_sums(path, o, sum);
}

Json parts_in(const std::filesystem::path& path, const Opened& o) {
  if (o.size != 0) fail("is longer than an index");
  compare_sums(path, o, o.sum);
  return Json::parse(o.header.at("__metadata__").at("parts").text());
}

}  // namespace

AtomicFile filled_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer) {
  Json::Object header{{"__metadata__", Json::Object{{"crc32", no_sum}, {"format", version}, {"state", state.dump()}}}};
  std::int64_t size = 0;
  std::uint32_t of_data = 0;
  each(weights, optimizer, [&](std::string_view folder, const NamedTensor& t) {
    if (safetensors_word(t.tensor.dtype()).empty())
      fail(ExitCode::io, path.string(), ": '", t.name, "' is of a type that checkpoints cannot hold, ", t.tensor.type());
    header.emplace_back(concat(folder, escaped(t.name)), safetensors_entry(t.tensor.type(), size));
    each_chunk(t.tensor, [&](std::span<const std::byte> bytes, std::int64_t) { of_data = add_to(of_data, bytes.data(), bytes.size()); });
    size += t.tensor.byte_size();
  });
  std::string text = safetensors_header(std::move(header));
  put_sum(text, of_data, size);
  return told_with_room(path, std::ssize(text) + size, [&] {
    AtomicFile file(path);
    file.append(text);
    each(weights, optimizer, [&](std::string_view, const NamedTensor& t) {
      each_chunk(t.tensor, [&](std::span<const std::byte> bytes, std::int64_t) {
        file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      });
    });
    return file;
  });
}

void write_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer) {
  filled_checkpoint(path, state, weights, optimizer).commit();
}

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const auto all = [](const std::vector<NamedTensor>& list) {
    return [&list](const Session::Visit& visit) {
      for (const NamedTensor& t : list) visit(t);
    };
  };
  write_checkpoint(path, checkpoint.state, all(checkpoint.weights), all(checkpoint.optimizer));
}

void write_index(const std::filesystem::path& path, const Json& state, const Json& parts) {
  std::string text = safetensors_header(Json::Object{
      {"__metadata__",
       Json::Object{{"crc32", no_sum}, {"format", index_version}, {"state", state.dump()}, {"parts", parts.dump()}}}});
  if (std::ssize(text) > largest_safetensors_header)
    fail(ExitCode::io, path.string(), ": the index of its parts takes ", text.size(), " bytes, at most ", largest_safetensors_header,
         " can be read");
  put_sum(text, 0, 0);
  write_atomically(path, text);
}

Checkpoint read_checkpoint(const std::filesystem::path& path, const std::function<bool(std::size_t)>& check) {
  const Opened o = open_checkpoint(path);
  if (o.is_zip) return read_zip(path);
  Checkpoint checkpoint{.state = {}, .checksum = o.written, .weights = {}, .optimizer = {}};
  try {
    checkpoint.state = Json::parse(o.header.at("__metadata__").at("state").text());
    if (o.is_index) {
      PlacedTensors tensors = open_parts(path, parts_in(path, o), check);
      checkpoint.weights = std::move(tensors.weights);
      checkpoint.optimizer = std::move(tensors.optimizer);
    } else {
      read_values(path, o, !check || check(0), checkpoint);
    }
  } catch (const Error& e) {
    fail_as_damaged(path, e);
  }
  return checkpoint;
}

std::set<std::string> names_of_parts(const std::filesystem::path& path) {
  const Opened o = open_checkpoint(path);
  std::set<std::string> names;
  try {
    const Json index = o.is_index ? parts_in(path, o) : Json(Json::Object{{"parts", Json::Array{}}});
    for (const Json& part : index.at("parts").array()) names.insert(part.at("name").text());
  } catch (const Error& e) {
    fail_as_damaged(path, e);
  }
  return names;
}

void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path) {
  if (std::none_of(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; }))
    fail(ExitCode::data, path.string(), ": holds no '", name, "'");
}

}  // namespace tandem
