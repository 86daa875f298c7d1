#include "planner/loss/sample_rows.h"

namespace tandem {

std::optional<Graph> doubled(const GraphSource& source, std::int64_t samples) {
  try {
    return source(2 * samples);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool apart(const Value& v) {
  return v.batch.present() && (v.batch.axis != 0 || v.batch.outer != 1);
}

std::int64_t rows_of(const Value& v, std::int64_t samples, const Shape* larger) {
  const Shape& shape = v.type.shape;
  if (!v.depends_on_batch || apart(v)) return 0;
  if (v.batch.present()) return shape[0] / samples;
  if (larger) return rows_per_sample(shape, samples, *larger, 2 * samples);
  return shape.rank() > 0 && shape[0] % samples == 0 ? shape[0] / samples : 0;
}

std::int64_t rows_per_sample(const Shape& shape, std::int64_t samples, const Shape& other, std::int64_t other_samples) {
  if (shape.rank() == 0 || shape.rank() != other.rank()) return 0;
  for (int i = 1; i < shape.rank(); ++i)
    if (shape[i] != other[i]) return 0;
  const bool grows = shape[0] % samples == 0 && shape[0] / samples * other_samples == other[0] && shape[0] != other[0];
  return grows ? shape[0] / samples : 0;
}

std::vector<std::int64_t> output_rows(const GraphSource& source, const Graph& model, std::int64_t samples) {
  const std::optional<Graph> larger = doubled(source, samples);
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const Value& v = model[model.outputs[i]];
    list.push_back(rows_of(v, samples, larger ? &(*larger)[larger->outputs[i]].type.shape : nullptr));
  }
  return list;
}

}  // namespace tandem
