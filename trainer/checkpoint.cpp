// Safetensors (runtime/safetensors.h) whose metadata begin the header. Our checksum
// stands in the metadata at a fixed place; it is over the whole file with zeros in its own place.
#include "trainer/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/atomic_file.h"
#include "base/file_kind.h"
#include "graph/file_values.h"
#include "graph/tensor_chunks.h"
#include "data/npy.h"
#include "data/zip.h"

namespace tandem {
namespace {

constexpr std::string_view version = "tandem checkpoint 3", zip_version = "tandem checkpoint 2";
constexpr std::string_view begin = R"({"__metadata__":{"crc32":")", no_sum = "00000000";
constexpr std::string_view folders[] = {"weights/", "optimizer/"};

std::uint32_t add_to(std::uint32_t sum, const void* bytes, std::size_t size) {
  // zlib begins anew where there is nothing
  return size == 0 ? sum : static_cast<std::uint32_t>(crc32_z(sum, static_cast<const Bytef*>(bytes), size));
}

// A name may be of any bytes, JSON's text may not: those beyond ASCII are written as %XX where they are no UTF-8.
std::string escaped(const std::string& name) {
  bool text = true;
  try {
    text = Json::parse(Json(name).dump()).text() == name;
  } catch (const Error&) {
    text = false;
  }
  std::string out;
  for (const char c : name)
    out += c == '%' || (!text && static_cast<unsigned char>(c) >= 0x80) ? fmt::format("%{:02X}", static_cast<unsigned char>(c))
                                                                        : std::string(1, c);
  return out;
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] != '%' || i + 2 >= text.size() ||
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr != text.data() + i + 3) {
      out += text[i];
    } else {
      out += static_cast<char>(value);
      i += 2;
    }
  }
  return out;
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

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer) {
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
  std::string text = Json(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data stand at a multiple of 8
  std::array<char, 8> length{};
  const std::uint64_t count = text.size();
  std::memcpy(length.data(), &count, length.size());
  std::uint32_t sum = add_to(add_to(0, length.data(), length.size()), text.data(), text.size());
  sum = static_cast<std::uint32_t>(crc32_combine(sum, of_data, size));
  text.replace(begin.size(), no_sum.size(), fmt::format("{:08x}", sum));

  AtomicFile file(path);
  file.append({length.data(), length.size()});
  file.append(text);
  each(weights, optimizer, [&](std::string_view, const NamedTensor& t) {
    each_chunk(t.tensor, [&](std::span<const std::byte> bytes, std::int64_t) {
      file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  });
  file.commit();
}

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const auto all = [](const std::vector<NamedTensor>& list) {
    return [&list](const Session::Visit& visit) {
      for (const NamedTensor& t : list) visit(t);
    };
  };
  write_checkpoint(path, checkpoint.state, all(checkpoint.weights), all(checkpoint.optimizer));
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto file = std::make_shared<InputFile>(path, ExitCode::data);
  std::array<char, 8> length{};
  if (file->size() < static_cast<std::int64_t>(length.size())) fail(ExitCode::data, name, ": is truncated, or not a checkpoint");
  file->read(length.data(), length.size(), 0);
  if (std::string_view(length.data(), 2) == "PK") return read_zip(path);
  std::int64_t count = 0;
  std::memcpy(&count, length.data(), length.size());
  const std::int64_t data = 8 + count, size = file->size() - data;
  if (count < static_cast<std::int64_t>(begin.size() + no_sum.size()) || count > largest_safetensors_header || size < 0)
    fail(ExitCode::data, name, ": is truncated or damaged, or not a checkpoint", it_is(head_of(*file)));
  std::string text(static_cast<std::size_t>(count), '\0');
  file->read(text.data(), text.size(), 8);
  if (!text.starts_with(begin))
    fail(ExitCode::data, name, ": is damaged, or not a checkpoint of this version ('", version, "')", it_is(head_of(*file)));
  const std::string written = text.substr(begin.size(), no_sum.size());
  text.replace(begin.size(), no_sum.size(), no_sum);
  std::uint32_t sum = add_to(add_to(0, length.data(), length.size()), text.data(), text.size());
  Checkpoint checkpoint;
  try {
    const Json header = Json::parse(text);
    const Json& metadata = header.at("__metadata__");
    if (metadata.at("format").text() != version) fail("is of the version '", metadata.at("format").text(), "', not of '", version, "'");
    checkpoint.state = Json::parse(metadata.at("state").text());
    std::int64_t at = 0;
    for (std::size_t i = 1; i < header.object().size(); ++i) {
      const auto& [key, entry] = header.object()[i];
      Tensor tensor = values_at(file, type_of(entry, at, size), data + at);
      each_chunk(tensor, [&](std::span<const std::byte> bytes, std::int64_t) { sum = add_to(sum, bytes.data(), bytes.size()); });
      at += tensor.byte_size();
      for (const auto& [folder, list] : {std::pair{folders[0], &checkpoint.weights}, {folders[1], &checkpoint.optimizer}})
        if (key.starts_with(folder)) list->push_back({unescaped(key.substr(folder.size())), std::move(tensor)});
    }
    if (at != size) fail("is truncated, or longer than its tensors");
  } catch (const Error& e) {
    if (e.code() == ExitCode::io) throw;
    fail(ExitCode::data, name, ": is damaged (", e.what(), ")");
  }
  if (written != fmt::format("{:08x}", sum)) fail(ExitCode::data, name, ": is damaged (its checksum differs)");
  return checkpoint;
}

void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path) {
  if (std::none_of(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; }))
    fail(ExitCode::data, path.string(), ": holds no '", name, "'");
}

}  // namespace tandem
