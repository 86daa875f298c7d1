// How much each class counts in the loss: numbers that a user gives, or such as make up for few samples.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/option.h"
#include "base/spec.h"
#include "data/iterable.h"
#include "planner/loss/labels.h"
#include "trainer/template/model_template.h"

namespace tandem {

std::vector<double> ModelTemplate::class_weights(std::string_view text, const ModelOptions& options, const Dataset& data) const {
  std::vector<double> weights;
  if (text.empty()) return weights;
  ModelOptions plain = options;
  plain.plan.loss.class_weights.clear();
  const Losses losses = losses_for(plain);
  const auto with_classes = std::find_if(losses.begin(), losses.end(), [](const Labels& l) { return l.classes > 0; });
  if (with_classes == losses.end())
    fail(ExitCode::usage, option("class_weights"), ": the loss ", options.plan.loss.name, " has no classes");
  const Labels& l = *with_classes;
  if (text != "balanced") {
    std::string list(text);
    if (std::filesystem::is_regular_file(list)) {
      list = read_file(list);
      for (char& c : list)
        if (c == '\n' || c == '\r' || c == ' ' || c == '\t') c = ',';
    }
    for (const std::string& one : split(list, ','))
      if (!one.empty()) weights.push_back(parse_number(one, "class weights"));
    if (static_cast<std::int64_t>(weights.size()) != l.classes)
      fail(ExitCode::usage, option("class_weights"), " '", text, "': ", weights.size(), " weights for ", l.classes, " classes");
    return weights;
  }
  need_all_samples(data, concat(option("class_weights"), " balanced"));
  const auto fields = data.fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& f) { return f.role == Role::label && (l.output.empty() || f.name == l.output); });
  if (field == fields.end() || l.sample->dtype != DType::int64 || is_float(field->sample.dtype) ||
      field->sample.shape.elements() != l.sample->shape.elements())
    fail(ExitCode::data, option("class_weights"), " balanced: ", data.name(), " has no labels that are class indices");
  std::vector<std::int64_t> counts(static_cast<std::size_t>(l.classes));
  const auto each = static_cast<std::size_t>(field->sample.shape.elements());
  std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min<std::int64_t>(data.size(), 4096)));
  std::vector<std::byte> raw(samples.size() * each * size_of(field->sample.dtype));
  const std::int64_t distinct = data.distinct(static_cast<std::size_t>(field - fields.begin()));
  for (std::int64_t begin = 0; begin < distinct; begin += std::ssize(samples)) {
    samples.resize(static_cast<std::size_t>(std::min(distinct - begin, std::ssize(samples))));
    std::iota(samples.begin(), samples.end(), begin);
    data.read(static_cast<std::size_t>(field - fields.begin()), samples, raw.data());
    visit_number(field->sample.dtype, [&]<class T>() {
      for (const T v : std::span(reinterpret_cast<const T*>(raw.data()), samples.size() * each)) {
        const auto label = static_cast<std::int64_t>(v);
        if (label >= 0 && label < l.classes && !(l.ignore && label == *l.ignore)) ++counts[static_cast<std::size_t>(label)];
      }
    });
  }
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  for (const std::int64_t count : counts)
    weights.push_back(count == 0 ? 0 : all / (static_cast<double>(l.classes) * static_cast<double>(count)));
  return weights;
}

}  // namespace tandem
