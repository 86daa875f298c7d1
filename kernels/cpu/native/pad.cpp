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

}  // namespace

Descriptions describe_pad(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  const auto maps = [rule, x = pair->x.shape, y = pair->y.shape] {
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.rank(); ++axis) {
      AxisMap map{axis, {}};
      for (std::int64_t i = 0; i < y[axis]; ++i) map.from.push_back(unpadded(i, rule.pads[static_cast<std::size_t>(axis)], x[axis], rule.mode));
      maps.push_back(std::move(map));
    }
    return maps;
  };
  return {axis_copy("native.pad", pair->x, pair->y, maps, rule.value, request.options.threads)};
}

// Constant: the inner part comes back. Else each element of dx sums the places it was copied to.
Descriptions describe_pad_backward(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  const Operand &dy = pair->x, &dx = pair->y;
  if (rule.mode == "constant") {
    const auto maps = [=] {
      std::vector<AxisMap> maps;
      for (int axis = 0; axis < dx.shape.rank(); ++axis) {
        AxisMap map{axis, {}};
        for (std::int64_t i = 0; i < dx.shape[axis]; ++i) {
          const std::int64_t there = i + rule.pads[static_cast<std::size_t>(axis)];
          map.from.push_back(there >= 0 && there < dy.shape[axis] ? there : -1);
        }
        maps.push_back(std::move(map));
      }
      return maps;
    };
    return {axis_copy("native.pad_backward", dy, dx, maps, 0, request.options.threads)};
  }
  if (dy.dtype != DType::float32 && dy.dtype != DType::float64) return {};
  KernelDescription d{.kernel = "native.pad_backward", .inputs = {dy}, .outputs = {dx}, .efficiency = 0.1};
  d.make = [=] {
    std::vector<AxisOffsets> axes;
    for (int axis = 0; axis < dx.shape.rank(); ++axis) {
      const std::vector<std::int64_t> there = axis_offsets(dx.shape, dx.layout, axis);
      AxisOffsets offsets{axis_offsets(dy.shape, dy.layout, axis), {}};
      for (std::int64_t i = 0; i < dy.shape[axis]; ++i)
        offsets.to.push_back(there[static_cast<std::size_t>(unpadded(i, rule.pads[static_cast<std::size_t>(axis)], dx.shape[axis], rule.mode))]);
      axes.push_back(std::move(offsets));
    }
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
