// Pad {pads, mode, value}: a copy whose border is a value, or elements read again. Its gradient adds those up.
#include "kernels/cpu/native/axis_copy.h"

namespace tandem::native {
namespace {

// The index of y along a padded axis as one of x, by the mode; −1: the value.
std::int64_t unpadded(std::int64_t i, std::int64_t begin, std::int64_t n, std::string_view mode) {
  std::int64_t j = i - begin;
  if (j >= 0 && j < n) return j;
  if (n == 0 || mode == "constant") return -1;
  if (mode == "edge") return std::clamp<std::int64_t>(j, 0, n - 1);
  if (mode == "wrap") return ((j % n) + n) % n;
  if (n == 1) return 0;
  const std::int64_t period = 2 * (n - 1);  // reflect
  j = ((j % period) + period) % period;
  return j < n ? j : period - j;
}

struct PadRule {
  Ints pads;
  std::string mode;
  double value;
};
PadRule pad_rule(const Attributes& attributes) {
  PadRule rule{attributes.ints("pads"), attributes.text("mode", "constant"), 0};
  if (const AttributeValue* value = attributes.find("value")) {
    if (const auto* f = std::get_if<float>(value)) rule.value = *f;
    if (const auto* i = std::get_if<std::int64_t>(value)) rule.value = static_cast<double>(*i);
    if (const auto* t = std::get_if<Tensor>(value)) rule.value = t->to_doubles().at(0);
  }
  return rule;
}

IndexMap unpadded_axis(const PadRule& rule, int axis, const Shape& x) {
  return [begin = rule.pads[static_cast<std::size_t>(axis)], n = x[axis], mode = rule.mode](std::int64_t i) {
    return unpadded(i, begin, n, mode);
  };
}

}  // namespace

Descriptions describe_pad(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  std::vector<AxisMap> maps;
  for (int axis = 0; axis < pair->y.shape.rank(); ++axis) maps.push_back({axis, unpadded_axis(rule, axis, pair->x.shape)});
  return {axis_copy("native.pad", pair->x, pair->y, maps, rule.value, request.options.threads)};
}

// Constant: the inner part comes back. Else each element of dx sums the places it was copied to.
Descriptions describe_pad_backward(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  const Operand &dy = pair->x, &dx = pair->y;
  if (rule.mode == "constant") {
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < dx.shape.rank(); ++axis)
      maps.push_back({axis, [begin = rule.pads[static_cast<std::size_t>(axis)], n = dy.shape[axis]](std::int64_t i) {
                        return i + begin < n ? i + begin : -1;
                      }});
    return {axis_copy("native.pad_backward", dy, dx, maps, 0, request.options.threads)};
  }
  if (dy.dtype != DType::float32 && dy.dtype != DType::float64) return {};
  KernelDescription d{.kernel = "native.pad_backward", .inputs = {dy}, .outputs = {dx}, .efficiency = 0.1};
  d.make = [=] {
    std::vector<AxisLoops> axes;
    for (int axis = 0; axis < dx.shape.rank(); ++axis)
      axes.push_back(
          loops_to(unpadded_axis(rule, axis, dx.shape), dy.shape[axis], {dy.shape, dy.layout, axis}, {dx.shape, dx.layout, axis}));
    const Copy copy(axes, size_of(dy.dtype));
    const auto bytes = static_cast<std::size_t>(dx.bytes());
    return make_kernel([=](const Memory& m) {
      std::memset(m.outputs[0], 0, bytes);
      visit_float(dy.dtype, [&]<class T>() { copy.add(m.in<T>(0), m.out<T>(0)); });
    })();
  };
  return {d};
}

}  // namespace tandem::native
