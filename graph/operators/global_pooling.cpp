// Pooling over all of an image: an ordinary pooling with a window of its size, or a reduction.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void infer_global(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
  Shape y(Ints(at(x.rank()), 1));
  y[0] = x[0];
  y[1] = x[1];
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// One window over all spatial axes; where there are more than pooling kernels take, a reduction.
std::vector<ValueId> pool_all(ExpandContext& e, std::string_view pool, std::string_view reduction) {
  const Shape x = e.shape(e.x());
  const std::size_t rank = at(x.rank() - 2);
  if (rank == 0) return {e.x()};
  if (rank > 3) {
    const Ints all = all_axes(x.rank());
    return {e.emit(reduction, {e.x()}, {{"axes", Ints(all.begin() + 2, all.end())}, {"keepdims", std::int64_t{1}}})};
  }
  return {e.emit(pool, {e.x()},
                 {{"kernel_shape", Ints(x.begin() + 2, x.end())},
                  {"strides", Ints(rank, 1)},
                  {"pads", Ints(2 * rank, 0)},
                  {"dilations", Ints(rank, 1)}})};
}

}  // namespace

// y[n,c] = mean, or maximum, over all spatial axes, kept as ones
Operator global_average_pool() {
  return {.name = "GlobalAveragePool",
          .since = {1, 22},
          .types = {{"T", types::floats}},
          .infer = infer_global,
          .follow = follow_rows,
          .expand = [](ExpandContext& e) { return pool_all(e, "AveragePool", "ReduceMean"); },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

Operator global_max_pool() {
  return {.name = "GlobalMaxPool",
          .since = {1, 22},
          .types = {{"T", types::floats}},
          .infer = infer_global,
          .follow = follow_rows,
          .expand = [](ExpandContext& e) { return pool_all(e, "MaxPool", "ReduceMax"); },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
