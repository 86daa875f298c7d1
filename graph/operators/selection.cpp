// Operators whose results are as long as their operands' values say: NonZero, Compress, Unique. A plan has static shapes, so these
// values must be known when it is made.
#include <numeric>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

// Whether each element is not zero.
std::vector<bool> set_elements(const Tensor& x) {
  std::vector<bool> set(static_cast<std::size_t>(x.elements()));
  const std::vector<double> numbers = x.dtype() == DType::boolean ? std::vector<double>{} : x.to_doubles();
  for (std::size_t i = 0; i < set.size(); ++i) set[i] = x.dtype() == DType::boolean ? x.values<bool>()[i] : numbers[i] != 0;
  return set;
}

Tensor places_of(const Tensor& x) {
  const std::vector<bool> set = set_elements(x);
  const Shape& shape = x.shape();
  const auto count = static_cast<std::int64_t>(std::count(set.begin(), set.end(), true));
  Tensor out(TensorType{DType::int64, Shape{shape.rank(), count}});
  const auto y = out.write<std::int64_t>();
  std::int64_t column = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      y[static_cast<std::size_t>(axis * count + column)] = rest % shape[axis];
      rest /= shape[axis];
    }
    ++column;
  }
  return out;
}

// The places where a condition holds.
Tensor kept(const Attributes& a) {
  const Ints condition = static_ints(a, "condition");
  Ints places;
  for (std::size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) places.push_back(static_cast<std::int64_t>(i));
  return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(places.size())}, std::span<const std::int64_t>(places));
}

void infer_compress(InferContext& c) {
  Attributes& a = c.node().attributes;
  if (!a.has("condition") || c.has_input(1)) c.fail("condition must be known when the plan is made: how many elements it keeps is a shape");
  const bool flat = !a.has("axis");
  const Shape x = flat ? Shape{c.shape(0).elements()} : c.shape(0);
  const int axis = flat ? 0 : axis_of(c, a.integer("axis"), x.rank());
  const Tensor places = kept(a);
  if (places.elements() > 0 && places.values<std::int64_t>().back() >= x[axis])
    c.fail("condition keeps element ", places.values<std::int64_t>().back(), " of ", x[axis]);
  if (!flat) a.set("axis", std::int64_t{axis});
  c.set_output(0, c.input(0).dtype, with_dim(x, axis, places.elements()));
}

// What Unique gives: of slices along an axis, or of single elements.
struct UniqueSlices {
  Tensor y, first, inverse, counts;
};

template <class T>
UniqueSlices unique_of(const Tensor& slices, std::int64_t n, bool sorted) {
  const auto x = slices.values<T>();
  const std::size_t size = n == 0 ? 0 : x.size() / static_cast<std::size_t>(n);
  const auto before = [](T a, T b) { return a < b || (a == a && b != b); };  // NaN comes last
  const auto less = [&](std::int64_t a, std::int64_t b) {
    const auto of = [&](std::int64_t i) { return x.subspan(static_cast<std::size_t>(i) * size, size); };
    return std::lexicographical_compare(of(a).begin(), of(a).end(), of(b).begin(), of(b).end(), before);
  };
  Ints order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  std::vector<Ints> groups;  // of equal slices, each in their order
  for (const std::int64_t i : order) {
    if (groups.empty() || less(groups.back()[0], i)) groups.emplace_back();
    groups.back().push_back(i);
  }
  if (!sorted) std::sort(groups.begin(), groups.end(), [](const Ints& a, const Ints& b) { return a[0] < b[0]; });
  const auto count = static_cast<std::int64_t>(groups.size());
  UniqueSlices u{Tensor(TensorType{slices.dtype(), Shape{count, static_cast<std::int64_t>(size)}}),
                 Tensor(TensorType{DType::int64, Shape{count}}), Tensor(TensorType{DType::int64, Shape{n}}),
                 Tensor(TensorType{DType::int64, Shape{count}})};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::copy_n(x.begin() + groups[g][0] * static_cast<std::ptrdiff_t>(size), size,
                u.y.write<T>().begin() + static_cast<std::ptrdiff_t>(g * size));
    u.first.write<std::int64_t>()[g] = groups[g][0];
    u.counts.write<std::int64_t>()[g] = static_cast<std::int64_t>(groups[g].size());
    for (const std::int64_t i : groups[g]) u.inverse.write<std::int64_t>()[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(g);
  }
  return u;
}

std::vector<Tensor> unique_tensors(const Tensor& x, const Attributes& a) {
  const bool flat = !a.has("axis"), sorted = a.integer("sorted", 1) != 0;
  const Tensor one = flat ? x.reshaped(Shape{x.elements()}) : x;
  const int axis = flat ? 0 : normalize_axis(a.integer("axis"), one.shape().rank(), "axis");
  const auto moved = [](const Tensor& t, int from, int to) {  // an axis elsewhere
    Ints strides = row_major_strides(t.shape());
    Shape shape = t.shape();
    const auto move = [&](Ints& list) {
      const std::int64_t v = list[at(from)];
      list.erase(list.begin() + from);
      list.insert(list.begin() + to, v);
    };
    move(strides);
    move(shape.dims);
    return strided_copy(t, shape, 0, strides);
  };
  const Tensor slices = moved(one, axis, 0);
  UniqueSlices u;
  visit_number(x.dtype(), [&]<class T>() { u = unique_of<T>(slices, slices.shape()[0], sorted); });
  const Tensor y = u.y.reshaped(with_dim(slices.shape(), 0, u.y.shape()[0]));
  return {moved(y, 0, axis), u.first, u.inverse, u.counts};
}

}  // namespace

// The coordinates of all elements that are not zero, a column each
Operator non_zero() {
  return {.name = "NonZero",
          .since = {9, 13}, .types = {{"T", types::all}},
          .infer =
              [](InferContext& c) {
                const Tensor* x = c.constant(0);
                if (!x)
                  c.fail(
                      "its operand must be known when the plan is made: how many elements are not zero is a shape. Multiply by the mask, "
                      "or use Where, instead");
                c.set_output(0, places_of(*x).type());
              },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{places_of(c.inputs[0])}; },
          .precision = PrecisionRole::wide, .operands = {{"X", OperandRole::index}}};
}

// The slices along axis, or without one the elements, where a known condition holds
Operator compress() {
  return {.name = "Compress",
          .since = {9, 11}, .inputs = {2, 2}, .types = {{"T", types::all}, {"T1", types::booleans}},
          .infer = infer_compress,
          .follow =
              [](FollowContext& c) {
                if (!c.attributes().has("axis")) c.fail("it picks from all elements, samples and all");
                follow_along_axis(c);
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const bool flat = !e.attributes().has("axis");
            const ValueId x = flat ? e.reshape(e.x(), Shape{e.shape(e.x()).elements()}) : e.x();
            return {e.emit("Gather", {x, e.graph().add_constant(e.node().name + "/kept", kept(e.attributes()))},
                           {{"axis", flat ? std::int64_t{0} : e.attributes().integer("axis")}})};
          },
          .static_operands = {{1, "condition"}},
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::view}, {"condition", OperandRole::index}}};
}

// The distinct elements, or slices along axis; where each came first, which each is, and how many there are of each
Operator unique() {
  return {.name = "Unique",
          .since = {11}, .outputs = {1, 4}, .types = {{"T", types::all}},
          .infer =
              [](InferContext& c) {
                const Tensor* x = c.constant(0);
                if (!x) c.fail("its operand must be known when the plan is made: how many elements differ is a shape");
                if (c.attributes().has("axis")) axis_of(c, c.attributes().integer("axis"), x->shape().rank());
                if (is_float(x->dtype()) && size_of(x->dtype()) == 2) c.fail("works on ", x->dtype(), ", which is not supported");
                const std::vector<Tensor> results = unique_tensors(*x, c.attributes());
                for (int i = 0; i < c.outputs(); ++i)
                  if (c.has_output(i)) c.set_output(i, results[at(i)].type());
              },
          .fold = [](const FoldContext& c) -> Folded { return unique_tensors(c.inputs[0], c.node.attributes); },
          .precision = PrecisionRole::wide, .operands = {{"X", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
