// numpy archives: arrays by the names of the model's inputs (or x for the only one, or for the one that no array is named as), y
// (or label, labels) or y_NAME for several labels, sample_weight; with the endings _train, _val and _test for parts; without an
// ending it is the training part. Options name others: INPUT=ARRAY, y=ARRAY, y.NAME=ARRAY, weight=ARRAY, val=FILE, test=FILE.
// All arrays of the parts that are read lie in memory (npy: reads what is larger).
#include <algorithm>
#include <cstring>
#include <set>

#include "data/columns.h"
#include "data/data_file.h"
#include "data/npy.h"
#include "data/zip.h"

namespace tandem {
namespace {

using Archives = std::vector<std::unique_ptr<ZipReader>>;

struct Part {
  std::string_view name;    // "train"
  std::string ending;       // "_train"
};
constexpr std::string_view endings[] = {"_train", "_val", "_test"};

Tensor joined(const std::vector<Tensor>& parts, const std::string& what) {
  if (parts.size() == 1) return parts[0];
  TensorType type = parts[0].type();
  if (type.shape.rank() == 0) fail(ExitCode::data, what, " is a scalar, expected samples along axis 0");
  type.shape[0] = 0;
  for (const Tensor& t : parts) {
    TensorType other = t.type();
    if (other.shape.rank() > 0) {
      type.shape[0] += other.shape[0];
      other.shape[0] = type.shape[0];
    }
    if (other != type) fail(ExitCode::data, what, " is ", t.type(), " in one file and ", parts[0].type(), " in the first");
  }
  Tensor all(type);
  std::byte* to = all.write().data();
  for (const Tensor& t : parts) {
    if (!t.bytes().empty()) std::memcpy(to, t.bytes().data(), t.bytes().size());
    to += t.bytes().size();
  }
  return all;
}

class Reader {
 public:
  Reader(Archives& archives, const Spec& spec, const DataRequest& request, const std::string& path, Part part)
      : archives_(archives), spec_(spec), request_(request), path_(path), part_(std::move(part)) {
    for (std::string name : archives[0]->names()) {
      if (!name.ends_with(".npy")) continue;
      name.resize(name.size() - 4);
      if (!name.ends_with(part_.ending)) continue;
      name.resize(name.size() - part_.ending.size());
      if (!part_.ending.empty() ||
          std::none_of(std::begin(endings), std::end(endings), [&](std::string_view e) { return name.ends_with(e); }))
        unused_.insert(name);
    }
  }

  std::unique_ptr<Dataset> read() {
    if (unused_.empty()) return nullptr;
    auto data = std::make_unique<MemoryDataset>(concat("npz:", path_, ", ", part_.name));
    for (const auto& [key, array] : spec_.options) {
      if (key == "y") labels_.emplace_back("y", take(array));
      if (key.starts_with("y.")) labels_.emplace_back(key.substr(2), take(array));
      if (key == "weight") weight_ = take(array);
    }
    const bool labels_given = !labels_.empty();
    for (const Field& input : request_.constants) take_constant(input);
    std::vector<std::pair<std::string, std::string>> inputs;  // by array
    std::vector<const Field*> lacking;
    for (const Field& input : request_.inputs) {
      const std::string given = spec_.text(input.name, "");
      if (!given.empty())
        inputs.emplace_back(input.name, take(given));
      else if (unused_.erase(input.name))
        inputs.emplace_back(input.name, input.name);
      else
        lacking.push_back(&input);
    }
    if (lacking.size() == 1 || request_.inputs.empty())
      if (const std::string array = spec_.text("x", "x"); unused_.erase(array)) {
        inputs.emplace_back(lacking.empty() ? "x" : lacking[0]->name, array);
        lacking.clear();
      }
    for (const char* name : {"y", "label", "labels"})
      if (!labels_given && labels_.empty() && unused_.erase(name)) labels_.emplace_back(name, name);
    if (!labels_given && labels_.empty())
      for (const std::string& name : std::set(unused_))
        if (name.starts_with("y_")) labels_.emplace_back(name.substr(2), take(name));
    for (const char* name : {"sample_weight", "sample_weights"})
      if (weight_.empty() && unused_.erase(name)) weight_ = name;
    if (lacking.size() == 1 && unused_.size() == 1 && !inputs.empty()) {
      notes_.push_back(concat(path_, ": the model's input '", lacking[0]->name, "' takes the array '", *unused_.begin(), "' (",
                              lacking[0]->name, "=ARRAY names another)"));
      inputs.emplace_back(lacking[0]->name, *unused_.begin());
      unused_.clear();
      lacking.clear();
    }
    if (inputs.empty()) return nullptr;
    if (unused_.count("class_weight"))
      fail(ExitCode::data, path_, ": holds class_weight", part_.ending,
           ", which is no array of samples: leave it out; how much classes count is told to training itself");
    if (!lacking.empty())
      fail(ExitCode::data, path_, ": no array ", lacking[0]->name, part_.ending, " for the model's input '", lacking[0]->name, "' ",
           lacking[0]->sample, ": ", lacking[0]->name, "=ARRAY names another; not used are ", list(unused_));

    for (const auto& [name, array] : inputs) {
      Tensor values = load(array);
      add(*data, array_field(name, values.dtype(), values.shape()), std::move(values));
    }
    for (auto& [name, value] : constants_) data->add_constant(name, std::move(value));
    for (const auto& [name, array] : labels_) add(*data, {.name = name, .role = Role::label}, rows_of(load(array), data->size()));
    if (!weight_.empty()) add(*data, {.name = "sample_weight", .role = Role::weight}, load(weight_).cast(DType::float32));
    if (!unused_.empty()) notes_.push_back(concat(path_, ": not used: ", list(unused_)));
    for (std::string& note : notes_) data->add_note(std::move(note));
    return data;
  }

 private:
  std::string take(const std::string& array) {
    if (!archives_[0]->has(concat(array, part_.ending, ".npy")))
      fail(ExitCode::usage, path_, ": no array '", array, part_.ending, "'",
           suggestion(array, std::vector<std::string>(unused_.begin(), unused_.end())));
    unused_.erase(array);
    return array;
  }
  Tensor load(const std::string& array) {
    std::vector<Tensor> parts;
    for (const auto& archive : archives_)
      parts.push_back(parse_npy(archive->read(concat(array, part_.ending, ".npy")), concat(path_, ": ", array, part_.ending)));
    return joined(parts, concat(path_, ": ", array, part_.ending));
  }
  // Fails (data) where the number of samples differs from the fields before: arrays in a model's own order of axes are found by that.
  void add(MemoryDataset& data, Field field, Tensor values) const {
    const Shape& shape = values.shape();
    if (shape.rank() == 0 || data.fields().empty() || shape[0] == data.size()) return data.add(std::move(field), std::move(values));
    std::string expected;
    for (const Field& input : request_.inputs)
      if (input.sample.dtype != DType::undefined)
        expected += concat(expected.empty() ? ": of each sample " : ", ", "'", input.name, "' takes ", input.sample);
    fail(ExitCode::data, data.name(), ": '", field.name, "' has ", shape[0], " samples, '", data.fields()[0].name, "' has ", data.size(),
         "; every array has them along axis 0", expected);
  }
  // The value of an input without samples: the array of its part, or the one for all parts.
  void take_constant(const Field& input) {
    const std::string given = spec_.text(input.name, ""), array = given.empty() ? input.name : given;
    for (const std::string& name : {concat(array, part_.ending), array}) {
      if (!archives_[0]->has(name + ".npy")) continue;
      unused_.erase(array);
      Tensor value = parse_npy(archives_[0]->read(name + ".npy"), concat(path_, ": ", name));
      constants_.emplace_back(input.name, constant_of(input, std::move(value), concat(path_, ": '", name, "'")));
      return;
    }
    if (!given.empty()) fail(ExitCode::usage, path_, ": no array '", given, "'");
  }
  // Labels of a head [N·T,C] may be given as [N·T].
  Tensor rows_of(Tensor labels, std::int64_t samples) const {
    const Shape& s = labels.shape();
    if (request_.label_rows <= 1 || s.rank() == 0 || s[0] != samples * request_.label_rows || s[0] == samples) return labels;
    Shape each = s;
    each[0] = request_.label_rows;
    each.dims.insert(each.dims.begin(), samples);
    return labels.reshaped(each);
  }
  static std::string list(const std::set<std::string>& names) {
    std::string s;
    for (const std::string& name : names) s += (s.empty() ? "" : ", ") + name;
    return s.empty() ? "none" : s;
  }

  Archives& archives_;
  const Spec& spec_;
  const DataRequest& request_;
  const std::string& path_;
  const Part part_;
  std::set<std::string> unused_;  // arrays of this part, without the ending
  std::vector<std::pair<std::string, std::string>> labels_;
  std::string weight_;
  std::vector<std::pair<std::string, Tensor>> constants_;
  std::vector<std::string> notes_;
};

Archives open_archives(const std::string& argument) {
  Archives archives;
  for (const std::string& file : files_of(argument)) archives.push_back(std::make_unique<ZipReader>(file));
  return archives;
}

}  // namespace

Splits open_npz(const Spec& spec, const DataRequest& request) {
  allow_columns(spec, request, {"val", "test"}, true);
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'npz' needs a file: npz:FILE");
  Archives archives = open_archives(spec.argument);
  const auto read = [&](std::string_view name, std::string ending) {
    return Reader(archives, spec, request, spec.argument, {name, std::move(ending)}).read();
  };
  Splits splits{.train = read("train", "_train"), .validation = read("validation", "_val"), .test = read("test", "_test")};
  if (!splits.train) splits.train = read("samples", "");
  for (auto [key, part] : {std::pair{"val", &splits.validation}, {"test", &splits.test}}) {
    const std::string path = spec.text(key, "");
    if (path.empty()) continue;
    Archives others = open_archives(path);
    *part = Reader(others, spec, request, path, {key, ""}).read();
    if (!*part) fail(ExitCode::data, path, ": holds no arrays for the model's inputs");
  }
  if (!splits.train && !splits.test) {
    std::string names;
    for (const std::string& name : archives[0]->names()) names += (names.empty() ? "" : ", ") + name;
    std::string wanted = request.inputs.size() > 1 ? "" : "x";
    if (wanted.empty())
      for (const Field& input : request.inputs) wanted += (wanted.empty() ? "" : ", ") + input.name;
    fail(ExitCode::data, spec.argument, ": holds ", names.empty() ? "nothing" : names, ", expected arrays ", wanted,
         " and y, or with the endings _train, _val and _test");
  }
  return splits;
}

}  // namespace tandem
