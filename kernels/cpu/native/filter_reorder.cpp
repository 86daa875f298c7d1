// Reorder of filters of 16-bit numbers from blocks of rows, as their gradients are written (16b16a), to blocks of pairs of inputs, as
// products of pairs read them (8b16a2b). A block holds 16 × 16 channels, of outputs a and inputs b.
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t side = 16, block = side * side;

// A block of rows, each of the outputs of an input, becomes one of pairs of rows.
void pair_rows(const std::uint16_t* x, std::uint16_t* y) {
  for (std::int64_t b = 0; b < side; b += 2)
    for (std::int64_t a = 0; a < side; ++a) {
      y[b * side + 2 * a] = x[b * side + a];
      y[b * side + 2 * a + 1] = x[(b + 1) * side + a];
    }
}

}  // namespace

Descriptions describe_filter_reorder(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  if (x.dtype != y.dtype || size_of(x.dtype) != sizeof(std::uint16_t) || x.shape != y.shape || rank < 2 || x.shape.elements() == 0)
    return {};
  const std::string &from = x.layout.tag(), &to = y.layout.tag();
  if (from.size() < rank || from.substr(rank) != "16b16a" || to != from.substr(0, rank) + "8b16a2b") return {};
  const std::int64_t blocks = physical_elements(x.shape, x.layout) / block;
  const int parts = threads_for(blocks * block, request.options.threads);
  KernelDescription d{.kernel = "native.reorder.filter", .inputs = {x}, .outputs = {y}, .efficiency = 0.7};
  d.make = make_kernel([blocks, parts](const Memory& m) {
    parallel(parts, [&](int part) {
      const Range mine = part_of(blocks, part, parts);
      for (std::int64_t i = mine.begin; i < mine.end; ++i)
        pair_rows(m.in<std::uint16_t>(0) + i * block, m.out<std::uint16_t>(0) + i * block);
    });
  });
  return {d};
}

}  // namespace tandem::native
