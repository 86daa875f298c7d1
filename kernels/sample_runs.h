// How elements that are drawn are counted by sample (docs/internal-operators.md, RandomNumbers): in row-major order they lie as
// [outside, samples, inside], and element (o, s, i) is the (o·inside + i)-th of sample s. Without samples it is all inside.
#pragma once
#include <cstdint>

#include "graph/attributes.h"
#include "graph/shape.h"

namespace tandem {

struct SampleRuns {
  std::int64_t outside = 1, samples = 1, inside = 1;
  bool counted = false;  // there are samples

  SampleRuns(const Attributes& a, const Shape& shape) : counted(a.has("axis")) {
    const int axis = static_cast<int>(a.integer("axis", -1));
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outside : inside) *= shape[i];
    if (!counted) return;
    const std::int64_t outer = a.integer("outer", 1);
    samples = shape[axis] / (outer * a.integer("inner", 1));
    outside *= outer;
    inside = samples == 0 ? 0 : inside / (outer * samples);
  }
  std::int64_t sample() const { return outside * inside; }  // elements of one
  bool consecutive() const { return outside == 1; }         // samples lie one behind the other
};

}  // namespace tandem
