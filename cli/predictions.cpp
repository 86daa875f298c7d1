#include "cli/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "data/npy.h"
#include "data/zip.h"

namespace tandem {
namespace {

constexpr double sum_tolerance = 1e-3;  // of float16's probabilities

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor wide = tensor.cast(DType::float64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

bool sum_to_one(std::span<const double> row) {
  return std::all_of(row.begin(), row.end(), [](double v) { return v >= 0 && v <= 1 + sum_tolerance; }) &&
         std::abs(std::accumulate(row.begin(), row.end(), 0.0) - 1) < sum_tolerance;
}

void softmax(std::span<double> row) {
  const double most = *std::max_element(row.begin(), row.end());
  for (double& v : row) v = std::exp(v - most);
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  for (double& v : row) v /= sum;
}

void exponential(std::span<double> row) {
  for (double& v : row) v = std::exp(v);
}

std::string class_table(const Tensor& scores, const Dataset& data, const std::vector<std::string>& classes) {
  const Probabilities p = probabilities_of(scores);
  std::string text = "sample,class,probability";
  for (const std::string& name : classes) text += ',' + csv_cell("p(" + name + ")");
  text += '\n';
  for (std::int64_t i = 0; i < scores.shape()[0]; ++i) {
    const auto row = std::span(p.values).subspan(static_cast<std::size_t>(i) * classes.size(), classes.size());
    const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    text += csv_cell(sample_name(data, i));
    text += std::isnan(row[0]) ? ",," : fmt::format(",{},{:.6g}", csv_cell(classes[best]), row[best]);
    for (const double v : row) text += std::isnan(v) ? "," : fmt::format(",{:.6g}", v);
    text += '\n';
  }
  return text;
}

std::string number_table(const NamedTensor& result, const Dataset& data) {
  const Shape& shape = result.tensor.shape();
  const std::int64_t samples = shape[0], columns = samples > 0 ? shape.elements() / samples : 0;
  const std::vector<double> values = numbers_of(result.tensor);
  std::string text = "sample";
  for (std::int64_t c = 0; c < columns; ++c) text += ',' + csv_cell(columns == 1 ? result.name : concat(result.name, '_', c));
  text += '\n';
  for (std::int64_t i = 0; i < samples; ++i) {
    text += csv_cell(sample_name(data, i));
    for (std::int64_t c = 0; c < columns; ++c) text += fmt::format(",{:.9g}", values[static_cast<std::size_t>(i * columns + c)]);
    text += '\n';
  }
  return text;
}

}  // namespace

Probabilities probabilities_of(const Tensor& output) {
  if (!is_float(output.dtype()) || output.shape().rank() != 2 || output.shape()[1] < 2)
    fail(ExitCode::usage, "probabilities of classes want an output [samples,classes] of floats, this one is ", output.type());
  Probabilities p{.values = numbers_of(output), .classes = output.shape()[1], .how = "probabilities"};
  const auto width = static_cast<std::size_t>(p.classes);
  const auto rows = [&](const auto& visit) {
    for (std::size_t at = 0; at < p.values.size(); at += width)
      if (const auto row = std::span(p.values).subspan(at, width);
          std::none_of(row.begin(), row.end(), [](double v) { return std::isnan(v); }))
        visit(row);
  };
  bool as_they_are = true, logarithms = true;
  rows([&](std::span<double> row) {
    as_they_are = as_they_are && sum_to_one(row);
    std::vector<double> powers(row.begin(), row.end());
    exponential(powers);
    logarithms = logarithms && sum_to_one(powers);
  });
  if (as_they_are) return p;
  p.how = logarithms ? "logarithms of probabilities" : "scores, by softmax";
  rows(logarithms ? exponential : softmax);
  return p;
}

std::string sample_name(const Dataset& data, std::int64_t sample) {
  const auto fields = data.fields();
  const bool files = std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.encoded; });
  return files ? data.describe(sample) : std::to_string(sample);
}

bool is_predictions_file(const std::string& path) {
  constexpr std::string_view endings[] = {".npy", ".npz", ".csv"};
  return std::any_of(std::begin(endings), std::end(endings), [&](std::string_view ending) { return path.ends_with(ending); });
}

void write_predictions(const std::string& path, const std::vector<NamedTensor>& results, const Dataset& data,
                       const std::vector<std::string>& classes) {
  const NamedTensor& first = results.at(0);
  if (path.ends_with(".csv"))
    return write_atomically(path, classes.empty() ? number_table(first, data) : class_table(first.tensor, data, classes));
  AtomicFile file(path);
  if (path.ends_with(".npy")) {
    const NpyFile array = npy_file_of(first.tensor);
    file.append(array.header);
    file.append(array.elements());
    return file.commit();
  }
  ZipWriter zip([&](std::string_view bytes) { file.append(bytes); });
  for (const NamedTensor& r : results) {
    const NpyFile array = npy_file_of(r.tensor);
    zip.add(r.name + ".npy", {array.header, array.elements()});
  }
  zip.finish();
  file.commit();
}

}  // namespace tandem
