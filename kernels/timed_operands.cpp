#include "kernels/timed_operands.h"

#include <algorithm>

namespace tandem {
namespace {

using Ends = std::int64_t (*)(const KernelDescription&);  // the first integer beyond those that may be

struct IntegerOperand {
  std::string_view kernel;
  std::size_t input;
  Ends end;
  bool lengths = false;  // all of them the largest
};

std::int64_t smallest_axis(const Shape& shape) { return shape.rank() == 0 ? 1 : *std::min_element(shape.begin(), shape.end()); }

// The axis of `data` in whose place the indices' axes stand in `picked`: its size. Where several would do, the smallest.
std::int64_t size_of_axis(const Shape& data, const Shape& indices, const Shape& picked) {
  std::int64_t size = 0;
  for (int a = 0; a < data.rank(); ++a) {
    Shape made(std::vector<std::int64_t>(data.begin(), data.begin() + a));
    made.dims.insert(made.dims.end(), indices.begin(), indices.end());
    made.dims.insert(made.dims.end(), data.begin() + a + 1, data.end());
    if (made == picked) size = size == 0 ? data[a] : std::min(size, data[a]);
  }
  return size;
}

constexpr IntegerOperand integer_operands[] = {
    {"native.recurrent", 4, [](const KernelDescription& d) { return d.inputs[0].shape[0] + 1; }, true},
    {"native.recurrent_backward", 2, [](const KernelDescription& d) { return d.inputs[1].shape[1] + 1; }, true},
    {"native.gather", 1, [](const KernelDescription& d) { return size_of_axis(d.inputs[0].shape, d.inputs[1].shape, d.outputs[0].shape); }},
    {"native.gather_backward", 1,
     [](const KernelDescription& d) { return size_of_axis(d.outputs[0].shape, d.inputs[1].shape, d.inputs[0].shape); }},
    {"native.gather_elements", 1, [](const KernelDescription& d) { return smallest_axis(d.inputs[0].shape); }},
    {"native.gather_elements_backward", 1, [](const KernelDescription& d) { return smallest_axis(d.outputs[0].shape); }},
    {"native.gather_nd", 1, [](const KernelDescription& d) { return smallest_axis(d.inputs[0].shape); }},
    {"native.scatter_elements", 1, [](const KernelDescription& d) { return smallest_axis(d.inputs[0].shape); }},
    {"native.scatter_nd", 1, [](const KernelDescription& d) { return smallest_axis(d.inputs[0].shape); }},
};

}  // namespace

std::optional<TimedIntegers> timed_integers(const KernelDescription& d, std::size_t input) {
  const auto row =
      std::ranges::find_if(integer_operands, [&](const IntegerOperand& o) { return o.kernel == d.kernel && o.input == input; });
  if (row == std::end(integer_operands)) return std::nullopt;
  const std::int64_t most = row->end(d) - 1;
  if (most < 0) return std::nullopt;
  return TimedIntegers{row->lengths ? most : 0, most};
}

}  // namespace tandem
