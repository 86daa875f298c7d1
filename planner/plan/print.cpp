#include "planner/plan/print.h"

#include <algorithm>

#include "base/units.h"

namespace tandem {
namespace {

struct SameAction {
  template <class A, class B>
  bool operator()(const A&, const B&) const { return false; }
  bool operator()(const SliceStep& a, const SliceStep& b) const { return a.host == b.host; }
  bool operator()(const ConcatStep& a, const ConcatStep& b) const { return a.host == b.host; }
  bool operator()(const ExchangeStep& a, const ExchangeStep& b) const { return a.exchange == b.exchange; }
  bool operator()(const LaunchStep& a, const LaunchStep& b) const {
    return a.op == b.op && a.kernel == b.kernel && to_string(a.attributes) == to_string(b.attributes);
  }
};

}  // namespace

bool run_alike(const DevicePlan& a, const DevicePlan& b) {
  const auto same_step = [](const Step& x, const Step& y) {
    return std::visit(SameAction{}, x.what, y.what) && x.inputs == y.inputs && x.outputs == y.outputs && x.stream == y.stream &&
           x.waits == y.waits && x.origin == y.origin;
  };
  const auto same_buffer = [](const Buffer& x, const Buffer& y) {
    return x.operand == y.operand && x.arena == y.arena && x.offset == y.offset && x.bytes == y.bytes;
  };
  return std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), same_buffer) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

std::string target_of(const Plan& plan, const Step& step) {
  const auto name = [](const auto& list, int index) {
    return index >= 0 && index < static_cast<int>(list.size()) ? shorten(list[static_cast<std::size_t>(index)].name, 32) : std::string();
  };
  if (const auto* s = step.as<SliceStep>()) return name(plan.inputs, s->host);
  if (const auto* s = step.as<ConcatStep>()) return name(plan.outputs, s->host);
  if (const auto* s = step.as<ExchangeStep>()) return name(plan.exchanges, s->exchange.index);
  return "";
}

std::string names_of(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    const DeviceId& first = devices[i];
    const auto run = [&](int step) {  // how many follow one another by this step
      std::size_t n = 1;
      while (i + n < devices.size() && devices[i + n].backend == first.backend &&
             devices[i + n].index == first.index + step * static_cast<int>(n))
        ++n;
      return n;
    };
    const std::size_t range = run(1), alike = run(0);
    text += concat(i > 0 ? ", " : "", first,
                   range > 1   ? concat("-", first.index + static_cast<int>(range) - 1)
                   : alike > 1 ? concat("*", alike)
                               : "");
    i += std::max(range, alike);
  }
  return text;
}

std::string label_of(const Plan& plan, const Step& step) {
  const auto* launch = step.as<LaunchStep>();
  return launch ? launch->op : concat(kind_of(plan, step), " ", target_of(plan, step));
}

}  // namespace tandem
