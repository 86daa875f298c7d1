// npy:X,Y: an array file of inputs and one of labels, each possibly of several shards; further inputs by INPUT=FILE, weights by
// weight=FILE, other parts by val=X,Y and test=X,Y. Nothing lies in memory: samples are read where they stand in the files, which may
// be larger than memory (arrays in Fortran's order, whose samples lie scattered, are read whole).
#include <algorithm>

#include "base/file.h"
#include "data/columns.h"
#include "data/data_file.h"
#include "data/npy.h"

namespace tandem {
namespace {

constexpr std::size_t most_header = 1 << 16;

// One file's array.
class ArrayFile {
 public:
  explicit ArrayFile(const std::string& path) : file_(path) {
    const std::string start = file_.read(0, std::min<std::uint64_t>(file_.size(), most_header));
    header_ = parse_npy_header(std::as_bytes(std::span(start)), file_.size(), path);
    if (header_.shape.rank() == 0) fail(ExitCode::data, path, ": a scalar, expected samples along axis 0");
    if (!header_.fortran) return;
    const std::string all = file_.read(0, file_.size());
    whole_ = parse_npy(std::as_bytes(std::span(all)), path);
  }
  const NpyHeader& header() const { return header_; }
  const std::string& name() const { return file_.name(); }
  std::int64_t size() const { return header_.shape[0]; }
  // `elements` of a sample.
  void read(std::int64_t sample, std::int64_t elements, std::byte* to) const {
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(header_.stored);
    const std::uint64_t offset = static_cast<std::uint64_t>(sample) * bytes;
    if (header_.stored == DType::float16 && !whole_.defined()) {
      std::vector<std::byte> halves(bytes);
      file_.read(header_.begin + offset, bytes, halves.data());
      floats_of_halves(halves.data(), static_cast<std::size_t>(elements), reinterpret_cast<float*>(to));
    } else if (whole_.defined()) {
      const std::size_t each = static_cast<std::size_t>(elements) * size_of(header_.dtype());
      std::copy_n(whole_.bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(sample) * each), each, to);
    } else {
      file_.read(header_.begin + offset, bytes, to);
    }
  }

 private:
  DataFile file_;
  NpyHeader header_;
  Tensor whole_;  // where it had to be read
};

class Arrays final : public Dataset {
 public:
  explicit Arrays(std::string name) : name_(std::move(name)) {}
  void add(const std::string& name, Role role, const std::string& argument) {
    Array array;
    for (const std::string& path : files_of(argument)) {
      array.files.push_back(std::make_unique<ArrayFile>(path));
      const NpyHeader &h = array.files.back()->header(), &first = array.files[0]->header();
      Shape here = h.shape, there = first.shape;
      here[0] = there[0] = 0;
      if (h.dtype() != first.dtype() || here != there)
        fail(ExitCode::data, path, ": ", TensorType{h.dtype(), h.shape}, ", the first of its shards is ",
             TensorType{first.dtype(), first.shape});
      array.ends.push_back((array.ends.empty() ? 0 : array.ends.back()) + array.files.back()->size());
    }
    const NpyHeader& first = array.files[0]->header();
    Shape all = first.shape;
    all[0] = array.ends.back();
    if (!fields_.empty() && all[0] != size_)
      fail(ExitCode::data, name_, ": ", argument, " has ", all[0], " samples, '", fields_[0].name, "' has ", size_);
    size_ = all[0];
    Field field = role == Role::input ? array_field(name, first.dtype(), all) : Field{.name = name, .role = role};
    field.sample = {first.dtype(), Shape(std::vector<std::int64_t>(all.begin() + 1, all.end()))};
    fields_.push_back(std::move(field));
    arrays_.push_back(std::move(array));
  }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::map<std::string, Tensor> constants() const override { return constants_; }
  void add_constant(const Field& input, const std::string& path) {
    const std::string bytes = read_file(path, ExitCode::io);
    constants_[input.name] = constant_of(input, parse_npy(std::as_bytes(std::span(bytes)), path), path);
  }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    const TensorType& type = fields_[field].sample;
    const std::int64_t elements = type.shape.elements();
    for (const std::int64_t sample : samples) {
      const auto& [ends, files] = arrays_[field];
      const auto file = std::upper_bound(ends.begin(), ends.end(), sample);
      const std::int64_t begin = file == ends.begin() ? 0 : *(file - 1);
      files[static_cast<std::size_t>(file - ends.begin())]->read(sample - begin, elements, to);
      to += static_cast<std::size_t>(elements) * size_of(type.dtype);
    }
  }

 private:
  struct Array {
    std::vector<std::int64_t> ends;  // of each file's samples
    std::vector<std::unique_ptr<ArrayFile>> files;
  };
  std::string name_;
  std::int64_t size_ = 0;
  std::vector<Field> fields_;
  std::vector<Array> arrays_;
  std::map<std::string, Tensor> constants_;
};

std::unique_ptr<Dataset> open_part(const Spec& spec, const DataRequest& request, const std::string& argument, std::string_view part) {
  auto data = std::make_unique<Arrays>(concat("npy:", argument, ", ", part));
  const std::vector<std::string> files = split(argument, ',');
  if (files.empty() || files.size() > 2)
    fail(ExitCode::usage, "data 'npy:", argument, "': expected npy:INPUTS.npy,LABELS.npy (further inputs by INPUT=FILE)");
  data->add(request.inputs.empty() ? "x" : request.inputs[0].name, Role::input, files[0]);
  for (const Field& input : request.constants)
    if (const auto given = spec.options.find(input.name); given != spec.options.end()) data->add_constant(input, given->second);
  if (part == "train")
    for (const auto& [key, path] : spec.options) {
      const bool constant = std::ranges::count(request.constants, key, &Field::name) > 0;
      if (key == "val" || key == "test" || constant) continue;
      const Role role = key == "weight" ? Role::weight : key == "y" || key.starts_with("y.") ? Role::label : Role::input;
      data->add(role == Role::weight ? "sample_weight" : key.starts_with("y.") ? key.substr(2) : key, role, path);
    }
  if (files.size() == 2) data->add("y", Role::label, files[1]);
  return data;
}

}  // namespace

Tensor constant_of(const Field& input, Tensor array, std::string_view what) {
  if (input.sample.dtype == DType::undefined || array.shape() == input.sample.shape) return array;
  if (array.elements() == 1 && input.sample.shape.elements() == 1) return array.reshaped(input.sample.shape);
  fail(ExitCode::data, what, " is ", array.type(), ", the model's input '", input.name, "' takes ", input.sample,
       " for the whole batch: it holds no samples, so its array is of that shape, and the same for all of them");
}

// A small last (or first) axis holds the channels.
Field array_field(std::string name, DType dtype, const Shape& shape) {
  const auto channels = [](std::int64_t n) { return n == 1 || n == 3 || n == 4; };
  Axes axes = Axes::plain;
  if (shape.rank() == 4 && channels(shape[3]) && !channels(shape[1]))
    axes = Axes::channels_last;
  else if (shape.rank() == 4 && channels(shape[1]))
    axes = Axes::channels_first;
  return {.name = std::move(name), .axes = axes, .pixels = dtype == DType::uint8 && shape.rank() >= 3};
}

Splits open_npy_files(const Spec& spec, const DataRequest& request) {
  allow_columns(spec, request, {"val", "test"}, true);
  const auto argument = [&](std::string_view part) {
    return part == "train"        ? spec.argument
           : part == "validation" ? spec.text("val", "")
           : part == "test"       ? spec.text("test", "")
                                  : std::string();
  };
  Splits splits;
  for (auto [part, to] : {std::pair{"train", &splits.train}, {"validation", &splits.validation}, {"test", &splits.test}})
    if (part == std::string_view("train") || !argument(part).empty())
      if (wants_part(request, part, [&](std::string_view p) { return !argument(p).empty(); }))
        *to = open_part(spec, request, argument(part), part);
  return splits;
}

}  // namespace tandem
