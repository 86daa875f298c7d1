// How many rows of a value belong to one sample.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/options.h"

namespace tandem {

// The model for twice the samples; none where it cannot be built for them.
std::optional<Graph> doubled(const GraphSource& source, std::int64_t samples);

// Whether the importer followed the samples to a place that is not rows of axis 0, those of a sample together: [T·N,C].
bool apart(const Value& value);

// Rows of a value for so many samples, whose shape for twice as many is `larger` where that is known; 0: it does not grow along axis 0.
std::int64_t rows_of(const Value& value, std::int64_t samples, const Shape* larger);

// How many rows of axis 0 of a value are one sample's, by its shapes for two numbers of samples; 0: it does not grow with
// the batch, or along another axis.
std::int64_t rows_per_sample(const Shape& shape, std::int64_t samples, const Shape& other, std::int64_t other_samples);

// The same of all of a model's outputs, in their order. A model that cannot be built for another number of samples is
// taken at its word: axis 0 is the batch where its size is a multiple.
std::vector<std::int64_t> output_rows(const GraphSource& source, const Graph& model, std::int64_t samples);

}  // namespace tandem
