// How elements that are drawn are counted by sample (docs/internal-operators.md, RandomNumbers): in row-major order they lie as
// [outside, samples, inside], and element (o, s, i) is the (o·inside + i)-th of sample s. Without samples it is all inside. Of a part of
// an axis (attribute `part`: axis, first index, indices of the whole axis, equal runs of it) elements are counted as in the whole.
#pragma once
#include <cstdint>

#include "graph/attributes.h"
#include "graph/shape.h"

namespace tandem {

struct SampleRuns {
  std::int64_t outside = 1, samples = 1, inside = 1;
  bool counted = false;  // there are samples
  // Elements of a part that lie side by side, how far apart such runs begin in the whole, and where the first does.
  std::int64_t run = std::int64_t{1} << 62, stride = 0, begin = 0;

  SampleRuns(const Attributes& a, Shape shape) : counted(a.has("axis")) {
    if (a.has("part")) {
      const std::vector<std::int64_t>& part = a.ints("part");
      const int cut = static_cast<int>(part[0]);
      std::int64_t behind = 1;
      for (int i = cut + 1; i < shape.rank(); ++i) behind *= shape[i];
      run = shape[cut] / part[3] * behind, stride = part[2] / part[3] * behind, begin = part[1] * behind;
      shape[cut] = part[2];
    }
    const int axis = static_cast<int>(a.integer("axis", -1));
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outside : inside) *= shape[i];
    if (!counted) return;
    const std::int64_t outer = a.integer("outer", 1);
    samples = shape[axis] / (outer * a.integer("inner", 1));
    outside *= outer;
    inside = samples == 0 ? 0 : inside / (outer * samples);
  }
  std::int64_t sample() const { return outside * inside; }  // elements of one
  bool parted() const { return stride > 0; }
  bool consecutive() const { return outside == 1 && !parted(); }  // samples lie one behind the other, whole
  std::int64_t of_whole(std::int64_t i) const { return i / run * stride + begin + i % run; }
  std::int64_t left_of_run(std::int64_t i) const { return run - i % run; }
};

}  // namespace tandem
