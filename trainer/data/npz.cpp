// numpy archives. Arrays by the names of the model's inputs (or x for the only one) and y (or label, labels), with _train,
// _val and _test endings for parts; without an ending it is the training part.
#include <algorithm>

#include "trainer/data/dataset.h"
#include "trainer/data/npy.h"
#include "trainer/data/zip.h"
#include "trainer/file.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

// Images are told by their shape: a small last (or first) axis holds the channels.
Axes axes_of(const Shape& samples) {
  const auto channels = [](std::int64_t n) { return n == 1 || n == 3 || n == 4; };
  if (samples.rank() != 4) return Axes::plain;
  if (channels(samples[3]) && !channels(samples[1])) return Axes::channels_last;
  return channels(samples[1]) ? Axes::channels_first : Axes::plain;
}

Field input_field(std::string name, const Tensor& values) {
  const Shape& s = values.shape();
  return {.name = std::move(name), .axes = axes_of(s), .pixels = values.dtype() == DType::uint8 && s.rank() >= 3};
}

std::unique_ptr<Dataset> read_part(ZipReader& zip, const Spec& spec, const DataRequest& request, std::string_view part,
                                   const std::string& ending) {
  const auto member = [&](const std::string& name) { return name + ending + ".npy"; };
  const auto read = [&](const std::string& name) {
    return parse_npy(zip.read(member(name)), concat(spec.argument, ": ", name, ending));
  };
  auto data = std::make_unique<MemoryDataset>(concat("npz:", spec.argument, ", ", part));
  std::vector<std::string> inputs;
  for (const Field& input : request.inputs)
    if (zip.has(member(input.name))) inputs.push_back(input.name);
  if (inputs.empty() && request.inputs.size() <= 1 && zip.has(member("x"))) inputs.emplace_back("x");
  if (inputs.empty()) return nullptr;
  for (const char* name : {"sample_weight", "sample_weights", "class_weight"})
    if (zip.has(member(name)))
      fail(ExitCode::data, spec.argument, ": holds ", name, ending, ", but samples cannot be weighted: leave the array out to train on all alike");
  for (const std::string& name : inputs) {
    Tensor values = read(name);
    Field field = input_field(name, values);
    data->add(std::move(field), std::move(values));
  }
  for (const char* name : {"y", "label", "labels"})
    if (zip.has(member(name)) && std::find(inputs.begin(), inputs.end(), name) == inputs.end()) {
      Tensor labels = read(name);
      // Those of a head [N·T,C] may be given as [N·T].
      const Shape& s = labels.shape();
      if (request.label_rows > 1 && s.rank() > 0 && s[0] == data->size() * request.label_rows && s[0] != data->size()) {
        Shape each = s;
        each[0] = request.label_rows;
        each.dims.insert(each.dims.begin(), data->size());
        labels = labels.reshaped(each);
      }
      data->add({.name = name, .role = Role::label}, std::move(labels));
      break;
    }
  return data;
}

}  // namespace

Splits open_npz(const Spec& spec, const DataRequest& request) {
  spec.allow({}, "data");
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'npz' needs a file: npz:FILE");
  ZipReader zip(spec.argument);
  Splits splits{.train = read_part(zip, spec, request, "train", "_train"),
                .validation = read_part(zip, spec, request, "validation", "_val"),
                .test = read_part(zip, spec, request, "test", "_test")};
  if (!splits.train) splits.train = read_part(zip, spec, request, "samples", "");
  if (!splits.train && !splits.test) {
    std::string names;
    for (const std::string& name : zip.names()) names += (names.empty() ? "" : ", ") + name;
    std::string wanted = request.inputs.size() > 1 ? "" : "x";
    if (wanted.empty())
      for (const Field& input : request.inputs) wanted += (wanted.empty() ? "" : ", ") + input.name;
    fail(ExitCode::data, spec.argument, ": holds ", names.empty() ? "nothing" : names, ", expected arrays ", wanted,
         " and y, or with the endings _train, _val and _test");
  }
  return splits;
}

std::unique_ptr<Dataset> open_npy(const std::string& path, const DataRequest&) {
  const std::string contents = read_file(path, ExitCode::data);
  Tensor values = parse_npy(std::as_bytes(std::span(contents)), path);
  auto data = std::make_unique<MemoryDataset>(path);
  Field field = input_field("x", values);
  data->add(std::move(field), std::move(values));
  return data;
}

}  // namespace tandem
