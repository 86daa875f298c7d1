#include "trainer/checkpoint_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/crc32c.h"
#include "base/space.h"
#include "graph/tensor_chunks.h"
#include "runtime/safetensors.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_names.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* part_format = "tandem checkpoint part 1";

bool is_name_of_part(const std::string& name) {
  constexpr std::string_view begin = "step-", end = ".part";
  return name.starts_with(begin) && name.ends_with(end) && name.size() > begin.size() + end.size() &&
         name.find_first_not_of("0123456789abcdef-o.", begin.size()) == name.size() - end.size() + 1;
}

// As NumPy writes it: "[0:4,:]"; empty of all of a value.
std::string text_of(const AxisRuns& runs) {
  std::string text;
  for (const std::vector<IndexRun>& axis : runs) {
    text += text.empty() ? '[' : ',';
    for (std::size_t i = 0; i < axis.size(); ++i) text += concat(i == 0 ? "" : "+", axis[i].begin, ':', axis[i].end);
  }
  return text.empty() ? text : text + ']';
}

TensorType type_of(const PlacedValue& value) { return {value.type.dtype, shape_of(value.type.shape, value.runs)}; }

// What parts have of a value.
class PlacedSource final : public TensorSource {
 public:
  struct Place {
    std::size_t part = 0;
    std::int64_t at = 0;
    AxisRuns runs;
  };
  PlacedSource(TensorType type, std::shared_ptr<const PartFiles> files, std::vector<Place> places)
      : type_(std::move(type)), files_(std::move(files)), places_(std::move(places)) {}

  void read(std::span<std::byte> to, std::int64_t offset) const override {
    std::vector<IndexRun> read;
    for (const Place& place : places_) {
      std::shared_ptr<const InputFile> file;
      for_each_run(type_, place.runs, offset, offset + std::ssize(to), [&](std::int64_t whole, std::int64_t part, std::int64_t bytes) {
        if (!file) file = files_->open(place.part);
        file->read(reinterpret_cast<char*>(to.data() + (whole - offset)), static_cast<std::size_t>(bytes), place.at + part);
        read.push_back({whole, whole + bytes});
      });
    }
    std::ranges::sort(read, {}, &IndexRun::begin);
    std::int64_t end = offset;  // up to here all was read, and once
    for (const IndexRun& run : read) end = run.begin == end ? run.end : -1;
    if (end != offset + std::ssize(to))
      fail(ExitCode::data, files_->index().string(), ": its parts do not have each byte of a value once, ", type_);
  }

 private:
  TensorType type_;
  std::shared_ptr<const PartFiles> files_;
  std::vector<Place> places_;
};

Json json_of(const AxisRuns& runs) {
  Json::Array axes;
  for (const std::vector<IndexRun>& axis : runs) {
    Json::Array numbers;
    for (const IndexRun& run : axis) numbers.insert(numbers.end(), {run.begin, run.end});
    axes.emplace_back(std::move(numbers));
  }
  return axes;
}

AxisRuns runs_in(const Json& json, const Shape& shape) {
  AxisRuns runs;
  for (const Json& axis : json.array()) {
    if (std::ssize(runs) == shape.rank()) fail("a part of ", shape, " has ", json.array().size(), " axes");
    const std::int64_t size = shape[static_cast<int>(runs.size())];
    std::vector<IndexRun>& list = runs.emplace_back();
    std::int64_t before = 0;
    for (std::size_t i = 0; i + 1 < axis.array().size(); i += 2) {
      list.push_back({axis.array()[i].integer(), axis.array()[i + 1].integer()});
      if (list.back().begin < before || list.back().end <= list.back().begin || list.back().end > size)
        fail("a part of ", shape, " has ", list.back().begin, " to ", list.back().end, " of ", size);
      before = list.back().end;
    }
    if (list.empty() || axis.array().size() % 2 != 0) fail("a part of ", shape, " has an axis of ", axis.array().size(), " numbers");
  }
  return runs;
}

CheckpointPart part_in(const Json& json) {
  CheckpointPart part{.name = json.at("name").text(), .bytes = json.at("bytes").integer()};
  if (!is_name_of_part(part.name)) fail("'", part.name, "' is no part's name");
  const std::int64_t sum = json.at("crc32c").integer();
  if (sum < 0 || sum > UINT32_MAX || part.bytes < 0) fail("'", part.name, "' has ", part.bytes, " bytes and the checksum ", sum);
  part.crc32c = static_cast<std::uint32_t>(sum);
  return part;
}

}  // namespace

std::string name_of_part(std::int64_t step, std::uint32_t drawn, int rank, int ranks) {
  return fmt::format("step-{}-{:08x}.{}-of-{}.part", step, drawn, rank, ranks);
}

PartHeader lay_out(std::span<PlacedValue> values, std::size_t part) {
  Json::Object header{{"__metadata__", Json::Object{{"format", part_format}}}};
  std::int64_t size = 0;
  for (PlacedValue& v : values) {
    if (v.part != part) continue;
    const TensorType type = type_of(v);
    if (safetensors_word(type.dtype).empty()) fail(ExitCode::io, "'", v.name, "' is of a type that checkpoints cannot hold, ", type);
    header.emplace_back(concat(v.folder, text_of(v.runs), '/', escaped(v.name)), safetensors_entry(type, size));
    v.at = size;
    size += bytes_of(type);
  }
  std::string text = safetensors_header(std::move(header));
  for (PlacedValue& v : values)
    if (v.part == part) v.at += std::ssize(text);
  return {text, std::ssize(text) + size};
}

WrittenPart write_part(const fs::path& path, const PartHeader& header, std::span<const PlacedValue> values, std::size_t part,
                       const std::function<Tensor(std::size_t)>& value) {
  return told_with_room(path, header.file_bytes, [&] {
    WrittenPart written{.file = {path.parent_path().parent_path(), path.parent_path().filename() / path.filename()}};
    const auto append = [&](std::span<const std::byte> bytes) {
      written.file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      written.crc32c = crc32c(written.crc32c, bytes);
    };
    append(std::as_bytes(std::span(header.text)));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i].part == part) each_chunk(value(i), [&](std::span<const std::byte> bytes, std::int64_t) { append(bytes); });
    return written;
  });
}

Json json_of_parts(std::span<const CheckpointPart> parts, std::span<const PlacedValue> values) {
  Json::Array files;
  for (const CheckpointPart& p : parts)
    files.emplace_back(Json::Object{{"name", p.name}, {"bytes", p.bytes}, {"crc32c", static_cast<std::int64_t>(p.crc32c)}});
  Json::Array list;
  for (std::size_t i = 0; i < values.size();) {
    const PlacedValue& first = values[i];
    Json::Array places;
    for (; i < values.size() && values[i].folder == first.folder && values[i].name == first.name; ++i)
      places.emplace_back(Json::Array{values[i].part, values[i].at, json_of(values[i].runs)});
    Json::Array dims;
    for (const std::int64_t dim : first.type.shape) dims.emplace_back(dim);
    list.emplace_back(Json::Object{{"name", concat(first.folder, '/', escaped(first.name))},
                                   {"dtype", safetensors_word(first.type.dtype)},
                                   {"shape", std::move(dims)},
                                   {"places", std::move(places)}});
  }
  return Json::Object{{"parts", std::move(files)}, {"values", std::move(list)}};
}

PlacedTensors open_parts(const fs::path& index, const Json& said, const std::function<bool(std::size_t)>& check) {
  std::vector<CheckpointPart> parts;
  for (const Json& part : said.at("parts").array()) parts.push_back(part_in(part));
  const auto files = std::make_shared<const PartFiles>(index, parts);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!check || check(i)) files->check(i);
  PlacedTensors tensors;
  for (const Json& value : said.at("values").array()) {
    const std::string name = unescaped(value.at("name").text());
    const TensorType type = safetensors_type(value);
    std::vector<PlacedSource::Place> places;
    std::int64_t bytes = 0;
    for (const Json& json : value.at("places").array()) {
      if (json.array().size() != 3) fail("'", name, "' has a place of ", json.array().size(), " entries, expected 3");
      const std::int64_t part = json.array()[0].integer(), at = json.array()[1].integer();
      if (part < 0 || part >= std::ssize(parts)) fail("'", name, "' is in part ", part, " of ", parts.size());
      const std::int64_t all = parts[static_cast<std::size_t>(part)].bytes;
      PlacedSource::Place place{static_cast<std::size_t>(part), at, runs_in(json.array()[2], type.shape)};
      const std::int64_t size = bytes_of({type.dtype, shape_of(type.shape, place.runs)});
      if (at < 0 || at > all || size > all - at) fail("'", name, "' has ", size, " bytes at ", at, " of ", all);
      bytes += size;
      places.push_back(std::move(place));
    }
    if (places.empty() || bytes != bytes_of(type))
      fail("'", name, "' ", type, " has ", bytes, " bytes in parts, expected ", bytes_of(type));
    const std::size_t slash = name.find('/');
    const std::string folder = name.substr(0, slash);
    if (folder != "weights" && folder != "optimizer") continue;
    (folder == "weights" ? tensors.weights : tensors.optimizer)
        .push_back({name.substr(slash + 1), Tensor(type, std::make_shared<PlacedSource>(type, files, std::move(places)))});
  }
  return tensors;
}

void remove_unnamed_parts(const fs::path& run) {
  std::error_code error;
  const fs::path folder = run / "parts";
  if (!fs::is_directory(fs::symlink_status(folder, error))) return;
  remove_abandoned_files(folder);
  std::vector<fs::path> parts, indices;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_name_of_part(at->path().filename().string())) parts.push_back(at->path());
  for (fs::directory_iterator at(run, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".checkpoint") indices.push_back(at->path());
  if (error) return;
  std::set<std::string> named;
  for (const fs::path& index : indices) {
    try {
      named.merge(names_of_parts(index));
    } catch (const Error& e) {
      if (e.code() != ExitCode::data) return;  // what is damaged names none
    }
  }
  for (const fs::path& part : parts)
    if (!named.contains(part.filename().string())) fs::remove(part, error);
  fs::remove(folder, error);  // where it is empty
}

}  // namespace tandem
