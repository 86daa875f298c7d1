// Any bytes as a plan file: read, verified, printed, and one step replayed on the CPU where its memory and its batch are small.
#include <algorithm>

#include "kernels/cpu/backend.h"
#include "planner/plan/format.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/trace.h"
#include "runtime/session.h"
#include "tests/fuzz/fuzz.h"

namespace tandem {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
constexpr std::size_t most_devices = 4, most_steps = 400;

bool is_small(const Plan& plan) {
  std::int64_t left = most_bytes;
  const auto takes = [&](std::int64_t bytes) { return bytes > left ? left = -1 : left -= bytes; };
  for (const PlanDevice& device : plan.devices) {
    const DeviceProgram& d = plan.programs[device.program];
    for (const Arena& a : d.arenas) takes(a.bytes);
    if (d.steps.size() > most_steps || d.model.threads > 8) return false;
  }
  for (const HostInput& i : plan.inputs) takes(bytes_of(i.type));
  for (const HostOutput& o : plan.outputs) takes(o.bytes());
  return left >= 0 && plan.devices.size() <= most_devices;
}

void step(const Plan& plan) {
  static const Backend* const backends[] = {&cpu_backend()};
  Session session(plan, backends);
  std::vector<NamedTensor> values;
  session.each_parameter([&](const NamedTensor& p) { values.push_back(p); });
  session.set_parameters(values);
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const HostInput& i : plan.inputs) inputs.push_back(in.emplace_back(static_cast<std::size_t>(bytes_of(i.type))).data());
  for (const HostOutput& o : plan.outputs)
    outputs.push_back(out.emplace_back(static_cast<std::size_t>(o.bytes())).data());
  session.run(0, inputs, outputs, {.learning_rate = 0.01});
}

std::string without_checksum(std::string bytes) {
  if (bytes.size() >= checksum_bytes) bytes.resize(bytes.size() - checksum_bytes);
  return bytes;
}

// The checksum is made right again, so that what is behind it is reached; not always.
std::size_t mutate(const std::string& file, const std::string& other, std::uint8_t* data, std::size_t room, unsigned seed) {
  fuzz::Random random(seed);
  std::string plan = without_checksum(file);
  fuzz::mutate_message(plan, without_checksum(other), {}, random);
  return fuzz::give(random.one_in(16) ? plan : with_checksum(std::move(plan)), data, room);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    const Plan plan = parse_plan(fuzz::text_of(data, size));
    parse_plan(serialize(plan));
    if (!is_small(plan)) return;
    text_of_plan(plan, true);
    json_of(plan);
    dot_of(plan);
    html_of(plan);
    mermaid_of(plan);
    svg_of(plan);
    trace_of(plan);
    step(plan);
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  return mutate(fuzz::text_of(data, size), fuzz::text_of(data, size), data, room, seed);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data, std::size_t size, const std::uint8_t* other,
                                                 std::size_t other_size, std::uint8_t* out, std::size_t room, unsigned seed) {
  using namespace tandem;
  return mutate(fuzz::text_of(data, size), fuzz::text_of(other, other_size), out, room, seed);
}
