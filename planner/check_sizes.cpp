// Values are counted by the shapes of the program that is lowered: passes have made, fused and cut them already.
#include "planner/check_sizes.h"

#include "base/size.h"

namespace tandem {
namespace {

// Bytes, where a device's memory is not known: sums of all values fit in 63 bits.
constexpr std::int64_t any_device = std::int64_t{1} << 46;

}  // namespace

void check_sizes(const Graph& program, const DeviceId& device, const DeviceModel& model) {
  const std::int64_t room = model.memory > 0 ? model.memory : any_device;
  const auto check = [&](ValueId id) {
    if (!id.present() || program[id].opaque) return;
    const Value& v = program[id];
    std::int64_t bytes = static_cast<std::int64_t>(size_of(v.type.dtype));
    for (const std::int64_t d : v.type.shape) {
      if (d > longest_axis) fail("value '", v.name, "' ", v.type, " has an axis of ", d, " elements, expected at most ", longest_axis);
      if (d == 0) return;
    }
    for (const std::int64_t d : v.type.shape)
      if (__builtin_mul_overflow(bytes, d, &bytes) || bytes > room)
        throw ValueTooLarge(concat("device ", device, " has ", room >> 20, " MiB, too little for '", v.name, "' ", v.type, " alone"));
  };
  for (const ValueId in : program.inputs) check(in);
  for (const Node& node : program.nodes) {
    for (const ValueId in : node.inputs) check(in);
    for (const ValueId out : node.outputs) check(out);
  }
  for (const ValueId out : program.outputs) check(out);
}

}  // namespace tandem
