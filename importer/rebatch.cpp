#include "importer/rebatch.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

struct Scaled {
  int axis;                    // of the input, on which it grew with the batch
  std::int64_t before, after;  // the batch
};

// In row-major order the batch lies inside the axes before it. The output axis that holds it begins at the same place,
// or earlier where axes were merged.
int batch_axis(const BatchHint& hint, const Scaled& scaled) {
  std::int64_t outside = 1;
  for (int i = 0; i < scaled.axis; ++i) outside *= hint.input[i];
  for (const bool merged : {false, true}) {
    std::int64_t prefix = 1;
    for (int i = 0; i < hint.output.rank() && prefix > 0 && outside > 0; ++i) {
      const std::int64_t next = prefix * hint.output[i];
      if ((merged ? outside % prefix == 0 : prefix == outside) && next % (outside * scaled.before) == 0) return i;
      prefix = next;
    }
  }
  return -1;
}

void rebatch_reshape(const BatchHint& hint, const Scaled& scaled, Draft& draft) {
  const int axis = batch_axis(hint, scaled);
  if (axis < 0) return;
  Ints target = hint.output.dims;
  std::int64_t& dim = target[static_cast<std::size_t>(axis)];
  dim = dim / scaled.before * scaled.after;
  draft.attributes.set("shape", target);
  draft.attributes.set("allowzero", std::int64_t{1});
}

void rebatch_expand(const BatchHint& hint, const Scaled& scaled, Draft& draft) {
  const int axis = scaled.axis + hint.output.rank() - hint.input.rank();
  if (axis < 0 || hint.output[axis] != hint.input[scaled.axis]) return;
  Ints target = hint.output.dims;
  target[static_cast<std::size_t>(axis)] = hint.input[scaled.axis] / scaled.before * scaled.after;
  draft.attributes.set("shape", target);
}

// A slice that took the whole axis still does.
void rebatch_slice(const BatchHint& hint, const Scaled& scaled, Draft& draft) {
  if (hint.output.rank() != hint.input.rank() || hint.output[scaled.axis] != hint.input[scaled.axis]) return;
  Ints starts = draft.attributes.ints("starts"), ends = draft.attributes.ints("ends");
  const Ints axes = draft.attributes.ints("axes", {}), steps = draft.attributes.ints("steps", {});
  for (std::size_t i = 0; i < std::min(starts.size(), ends.size()); ++i) {
    const std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : i < axes.size() ? axes[i] : -1;
    const bool forward = i >= steps.size() || steps[i] == 1;
    if (!forward || (axis < 0 ? axis + hint.input.rank() : axis) != scaled.axis) continue;
    starts[i] = 0;
    ends[i] = std::numeric_limits<std::int64_t>::max();
  }
  draft.attributes.set("starts", starts);
  draft.attributes.set("ends", ends);
}

struct Row {
  std::string_view op;
  void (*apply)(const BatchHint&, const Scaled&, Draft&);
};
constexpr Row rows[] = {{"Reshape", rebatch_reshape}, {"Expand", rebatch_expand}, {"Slice", rebatch_slice}};

const Row* row_of(const std::string& op) {
  for (const Row& row : rows)
    if (row.op == op) return &row;
  return nullptr;
}

}  // namespace

bool wants_batch_hint(const std::string& op) {
  return row_of(op) != nullptr;
}

void rebatch(const Graph& graph, const BatchHint& hint, std::int64_t from, std::int64_t to, Draft& draft) {
  const Row* row = row_of(draft.op);
  if (!row || draft.inputs.empty() || !draft.inputs[0].present()) return;
  const Value& x = graph[draft.inputs[0]];
  const Shape& shape = x.type.shape;
  if (!x.depends_on_batch || shape.rank() != hint.input.rank()) return;
  int grown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == hint.input[i]) continue;
    // One axis only, by just the factor of the batch.
    if (grown >= 0 || hint.input[i] % from != 0 || shape[i] % to != 0 || hint.input[i] / from != shape[i] / to) return;
    grown = i;
  }
  if (grown >= 0) row->apply(hint, {grown, from, to}, draft);
}

}  // namespace tandem
