// Source: the format's description in github.com/huggingface/safetensors.
#include "runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/atomic_file.h"
#include "base/file_kind.h"
#include "base/printable.h"
#include "graph/tensor_chunks.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr const char* metadata_key = "__metadata__";

struct Type {
  DType dtype;
  std::string_view word;
};
constexpr Type types[] = {{DType::float32, "F32"},  {DType::float64, "F64"}, {DType::float16, "F16"}, {DType::bfloat16, "BF16"},
                          {DType::boolean, "BOOL"}, {DType::int8, "I8"},     {DType::int16, "I16"},   {DType::int32, "I32"},
                          {DType::int64, "I64"},    {DType::uint8, "U8"},    {DType::uint16, "U16"},  {DType::uint32, "U32"},
                          {DType::uint64, "U64"}};

}  // namespace

std::string_view safetensors_word(DType dtype) {
  const Type* const type = std::ranges::find(types, dtype, &Type::dtype);
  return type == std::end(types) ? std::string_view() : type->word;
}

TensorType safetensors_type(const Json& entry) {
  const std::string& word = entry.at("dtype").text();
  const Type* const type = std::ranges::find(types, word, &Type::word);
  if (type == std::end(types)) fail("dtype ", word, " is not known");
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type->dtype));
  std::vector<std::int64_t> dims;
  for (const Json& dim : entry.at("shape").array()) {
    dims.push_back(dim.integer());
    if (dims.back() < 0 || __builtin_mul_overflow(bytes, dims.back(), &bytes)) fail("shape has a dimension of ", dims.back());
  }
  return {type->dtype, Shape(dims)};
}

Json safetensors_entry(const TensorType& type, std::int64_t begin) {
  Json::Array dims;
  for (const std::int64_t dim : type.shape) dims.emplace_back(dim);
  return Json::Object{{"dtype", safetensors_word(type.dtype)},
                      {"shape", std::move(dims)},
                      {"data_offsets", Json::Array{begin, begin + bytes_of(type)}}};
}

std::string safetensors_header(Json header) {
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t count = text.size();
  text.insert(0, sizeof count, '\0');
  std::memcpy(text.data(), &count, sizeof count);
  return text;
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata, const EachTensor& tensors) {
  Json::Object words;
  for (const auto& [key, value] : metadata) words.emplace_back(key, value);
  Json::Object header;
  if (!words.empty()) header.emplace_back(metadata_key, std::move(words));
  std::int64_t size = 0;
  tensors([&](const NamedTensor& t) {
    if (safetensors_word(t.tensor.dtype()).empty())
      fail(ExitCode::io, path.string(), ": '", t.name, "' is of a type that safetensors does not have, ", t.tensor.type());
    header.emplace_back(as_text(t.name), safetensors_entry(t.tensor.type(), size));
    size += t.tensor.byte_size();
  });
  AtomicFile file(path);
  file.append(safetensors_header(std::move(header)));
  tensors([&](const NamedTensor& t) {
    each_chunk(t.tensor, [&](std::span<const std::byte> bytes, std::int64_t) {
      file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  });
  file.commit();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path.string()), file_(open_regular(path, ExitCode::data)) {
  std::uint64_t count = 0;
  std::array<char, 8> length{};
  const auto damaged = [&] {
    std::string head(static_cast<std::size_t>(std::min<std::int64_t>(file_.size, 512)), '\0');
    read_exactly(file_.descriptor.get(), head.data(), head.size(), 0, path_);
    fail(ExitCode::data, path_, ": is truncated or damaged, or no safetensors file", it_is(head));
  };
  if (file_.size < static_cast<std::int64_t>(length.size())) damaged();
  read_exactly(file_.descriptor.get(), length.data(), length.size(), 0, path_);
  std::memcpy(&count, length.data(), length.size());
  if (count > static_cast<std::uint64_t>(std::min(largest_safetensors_header, file_.size - 8))) damaged();
  std::string text(count, '\0');
  read_exactly(file_.descriptor.get(), text.data(), text.size(), 8, path_);
  try {
    read_header(text, 8 + static_cast<std::int64_t>(count));
  } catch (const Error& e) {
    fail(ExitCode::data, path_, ": is damaged (", e.what(), ")");
  }
}

void SafetensorsFile::read_header(const std::string& text, std::int64_t data) {
  const Json header = Json::parse(text);
  for (const auto& [name, entry] : header.object()) {
    if (name == metadata_key) {
      for (const auto& [key, value] : entry.object()) metadata_[key] = value.text();
      continue;
    }
    const TensorType type = safetensors_type(entry);
    const Json::Array& offsets = entry.at("data_offsets").array();
    if (offsets.size() != 2) fail("'", name, "': data_offsets are two numbers");
    const std::int64_t begin = offsets[0].integer(), end = offsets[1].integer();
    if (begin < 0 || end < begin || end > file_.size - data || end - begin != bytes_of(type))
      fail("'", name, "' ", type, " at ", begin, " to ", end, " of ", file_.size - data, " bytes: expected ", bytes_of(type),
           " bytes there");
    entries_[from_text(name)] = {type, data + begin};
  }
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(ExitCode::data, path_, ": holds no tensor '", name, "'");
  Tensor tensor(found->second.type);
  const auto bytes = tensor.write();
  read_exactly(file_.descriptor.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), found->second.at, path_);
  return tensor;
}

}  // namespace tandem
