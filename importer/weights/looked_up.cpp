#include "importer/weights/looked_up.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "importer/batch/batch_reading.h"
#include "importer/batch/follow_batch.h"
#include "importer/message/value_tests.h"
#include "importer/weights/tie_weights.h"

namespace tandem {
namespace {

constexpr std::int64_t most_places = std::int64_t{1} << 22;  // that are compared, of some hundred bytes each

// Where the rows along one axis begin, and how far apart their elements are.
struct Rows {
  std::int64_t length, stride, places;
  std::int64_t begin(std::int64_t place) const { return place / stride * stride * length + place % stride; }
};

Rows rows_along(const Shape& shape, int axis) {
  std::int64_t stride = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) stride *= shape[i];
  return {shape[axis], stride, shape.elements() / shape[axis]};
}

std::optional<LookedUp> repeated_along(const Tensor& whole, int axis) {
  const Rows rows = rows_along(whole.shape(), axis);
  const std::size_t size = size_of(whole.dtype());
  std::unordered_map<std::string, std::int64_t> known;
  LookedUp found{.symbol = {}, .shape = whole.shape(), .axis = axis, .row_at = {}, .rows = 0};
  std::int64_t telling = 0, different = 0;  // rows whose values are not all alike: how often, and how many kinds
  std::string row(static_cast<std::size_t>(rows.length) * size, '\0');
  for (std::int64_t place = 0; place < rows.places; ++place) {
    for (std::int64_t i = 0; i < rows.length; ++i)
      std::memcpy(row.data() + static_cast<std::size_t>(i) * size,
                  whole.bytes().data() + static_cast<std::size_t>(rows.begin(place) + i * rows.stride) * size, size);
    const auto [at, is_new] = known.try_emplace(row, found.rows);
    found.rows += is_new;
    found.row_at.push_back(at->second);
    const bool tells = !std::equal(row.begin() + static_cast<std::ptrdiff_t>(size), row.end(), row.begin());
    telling += tells;
    different += tells && is_new;
  }
  if (different == 0 || 4 * different > 3 * telling) return std::nullopt;
  return found;
}

}  // namespace

Shape LookedUp::places() const {
  Shape s = shape;
  s.dims.erase(s.dims.begin() + axis);
  return s;
}

std::optional<LookedUp> repeated_rows(const Tensor& whole) {
  std::optional<LookedUp> best;
  if (whole.shape().elements() == 0) return best;
  for (int axis = 0; axis < whole.shape().rank(); ++axis) {
    if (whole.shape()[axis] < 2 || whole.shape().elements() / whole.shape()[axis] > most_places) continue;
    std::optional<LookedUp> found = repeated_along(whole, axis);
    if (found && (!best || found->compact().elements() < best->compact().elements())) best = std::move(found);
  }
  return best;
}

Tensor rows_of(const LookedUp& l, const Tensor& whole) {
  const Rows rows = rows_along(l.shape, l.axis);
  const std::size_t size = size_of(whole.dtype());
  Tensor out(TensorType{whole.dtype(), l.compact()});
  std::byte* to = out.write().data();
  std::int64_t next = 0;
  for (std::int64_t place = 0; place < rows.places; ++place) {
    if (l.row_at[static_cast<std::size_t>(place)] != next) continue;
    ++next;
    for (std::int64_t i = 0; i < rows.length; ++i, to += size)
      std::memcpy(to, whole.bytes().data() + static_cast<std::size_t>(rows.begin(place) + i * rows.stride) * size, size);
  }
  return out;
}

Tensor whole_of(const LookedUp& l, const Tensor& compact) {
  const Rows rows = rows_along(l.shape, l.axis);
  const std::size_t size = size_of(compact.dtype());
  Tensor out(TensorType{compact.dtype(), l.shape});
  std::byte* const to = out.write().data();
  for (std::int64_t place = 0; place < rows.places; ++place)
    for (std::int64_t i = 0; i < rows.length; ++i)
      std::memcpy(to + static_cast<std::size_t>(rows.begin(place) + i * rows.stride) * size,
                  compact.bytes().data() + static_cast<std::size_t>(l.row_at[static_cast<std::size_t>(place)] * rows.length + i) * size,
                  size);
  return out;
}

bool stands_for_samples(const FlatModel& model, const Tensor& tensor) {
  const std::int64_t samples = batch_readings(model.inputs, {})[0].samples;
  bool found = false;
  for (int axis = 0; axis < tensor.shape().rank() && samples > 1; ++axis)
    found = found || (tensor.shape()[axis] == samples && holds_copies(tensor, {.axis = axis}, samples));
  return found;
}

std::optional<LookedUp> looked_up(const FlatModel& model, Symbol s) {
  const std::vector<std::string>* from = model.signature.computed_from(model.name(s));
  if (!from || from->size() != 1 || !model.signature.looked_up(model.name(s))) return std::nullopt;
  const auto held =
      std::find_if(model.main.initializers.begin(), model.main.initializers.end(), [&](const FlatInitializer& i) { return i.symbol == s; });
  if (held == model.main.initializers.end() || !held->data) return std::nullopt;
  const Tensor& whole = *held->data;
  if (stands_for_samples(model, whole)) return std::nullopt;
  std::optional<LookedUp> found = repeated_rows(whole);
  if (!found) return found;
  // Rows of a progression may be those that a parameter began with, each to be trained by itself.
  if (const Tensor rows = rows_of(*found, whole); is_table(transposed(rows.cast(DType::float32)))) return std::nullopt;
  found->symbol = s;
  return found;
}

const LookedUp* looked_up_there(const FlatModel& model, Symbol s) {
  const auto found = std::find_if(model.looked_up.begin(), model.looked_up.end(), [&](const LookedUp& l) { return l.symbol == s; });
  return found == model.looked_up.end() ? nullptr : &*found;
}

void find_looked_up(FlatModel& model) {
  for (const FlatInitializer& i : model.main.initializers) {
    if (model.holding(i.symbol) != Holding::trained || !is_float(i.type.dtype)) continue;
    if (follows(model, i.symbol)) continue;
    TemplateTensor& entry = model.tensors[static_cast<std::size_t>(model.held[static_cast<std::size_t>(i.symbol.index)])];
    if (entry.asked) continue;
    std::optional<LookedUp> found = looked_up(model, i.symbol);
    if (!found) continue;
    const std::string& from = model.signature.computed_from(entry.name)->front();
    const bool moved = model.signature.moved(entry.name);
    entry.certain = true;
    entry.reason = concat(moved ? "the file: looked up in '" : "the file: computed from '", from, "', ", found->rows, " rows that differ");
    model.warnings.push_back(concat("the exporter ", moved ? "looked up '" : "computed '", entry.name, moved ? "' in '" : "' from '", from,
                                    moved ? "': its " : "': what it computed is trained as it stands, its ", found->rows,
                                    " different rows ", moved ? "are trained, each as one" : "each as one", ", wherever it stands",
                                    Signature::way_out));
    model.looked_up.push_back(std::move(*found));
  }
}

}  // namespace tandem
