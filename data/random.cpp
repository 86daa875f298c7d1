// Noise of the model's input shapes with random labels: no data at all, for benchmarks and first tries.
#include <algorithm>
#include <cstring>

#include "base/spec.h"
#include "data/dataset.h"
#include "data/stream.h"

namespace tandem {
namespace {

constexpr std::int64_t most_samples = std::int64_t{1} << 53;  // beyond, counts are none
constexpr std::int64_t most_tested = std::int64_t{1} << 20;   // of the part that is measured by, and repeats samples, too
constexpr std::int64_t memory = std::int64_t{32} << 20;  // of distinct samples a field; further ones repeat them

// Floats uniform in [0, 1); integers 0..classes-1. Indices of a model's inputs lie below the smallest table they choose from.
Tensor noise(const TensorType& sample, std::int64_t samples, std::int64_t classes, Random random) {
  TensorType type = sample;
  type.shape.dims.insert(type.shape.dims.begin(), samples);
  Tensor values(type);
  visit_number(type.dtype, [&]<class T>() {
    for (T& v : values.write<T>())
      if constexpr (std::is_floating_point_v<T>)
        v = static_cast<T>(random.uniform());
      else
        v = static_cast<T>(random.below(classes));
  });
  return values;
}

class Noise final : public Dataset {
 public:
  Noise(std::string name, std::int64_t size, const DataRequest& request) : name_(std::move(name)), size_(size) {
    for (const Field& field : request.inputs) add(field, field.indices.count > 0 ? field.indices.count : 2, request.seed);
    for (const Field& input : request.constants) {
      const std::int64_t classes = input.indices.count > 0 ? input.indices.count : 2;
      const Random random(request.seed, stream_of(concat("constant/", input.name)));
      constants_[input.name] = noise(input.sample, 1, classes, random).reshaped(input.sample.shape);
    }
    if (request.label.dtype != DType::undefined)
      add({.name = "labels", .role = Role::label, .sample = request.label}, std::max<std::int64_t>(1, request.classes), request.seed);
  }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  std::int64_t distinct(std::size_t field) const override { return values_[field].shape()[0]; }
  bool follows_request() const override { return true; }
  std::vector<std::string> notes() const override { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  std::map<std::string, Tensor> constants() const override { return constants_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    const auto from = values_[field].bytes();
    const auto distinct = values_[field].shape()[0];
    const std::size_t bytes = from.size() / static_cast<std::size_t>(distinct);
    if (bytes == 0) return;
    for (const std::int64_t sample : samples) {
      std::memcpy(to, from.data() + static_cast<std::size_t>(sample % distinct) * bytes, bytes);
      to += bytes;
    }
  }

 private:
  void add(Field field, std::int64_t classes, std::uint64_t seed) {
    const std::int64_t bytes = bytes_of(field.sample);
    const std::int64_t distinct = std::clamp<std::int64_t>(memory / std::max<std::int64_t>(1, bytes), 1, size_);
    values_.push_back(noise(field.sample, distinct, classes, Random(seed, stream_of(concat(name_, '/', field.name)))));
    fields_.push_back(std::move(field));
  }
  std::string name_;
  std::int64_t size_;
  std::vector<Field> fields_;
  std::vector<Tensor> values_;
  std::map<std::string, Tensor> constants_;
  std::vector<std::string> notes_;
};

}  // namespace

Splits open_random(const Spec& spec, const DataRequest& request) {
  spec.allow({"samples"}, "data");
  const std::int64_t samples = spec.integer("samples", 1024);
  if (samples < 1 || samples > most_samples) fail(ExitCode::usage, "data 'random': samples=", samples, ", expected 1 to ", most_samples);
  auto test = std::make_unique<Noise>("random, test", std::min(samples, most_tested), request);
  if (samples > most_tested) test->add_note(concat("random, test: ", most_tested, " samples, for all of them are gone through"));
  return {.train = std::make_unique<Noise>("random, train", samples, request), .validation = nullptr, .test = std::move(test)};
}

}  // namespace tandem
