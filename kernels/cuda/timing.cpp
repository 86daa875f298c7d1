#include "kernels/cuda/timing.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/cuda/bodies/types.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr std::int64_t most_copies = 16, most_runs = 16;
constexpr double enough_seconds = 0.005;  // of one graph
constexpr int rounds = 5;

// From 1/2 to 3/2, so that nothing overflows and roots are real. Integers stay zero: indices and masks.
std::vector<std::byte> noise(DType dtype) {
  constexpr std::size_t elements = 1 << 18;
  std::vector<std::byte> bytes(elements * size_of(dtype));
  if (!is_storage_float(dtype)) return bytes;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(0.5F, 1.5F);
  visit_storage(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < elements; ++i) {
      const T value = store<T>(number(random));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// One set of memory for the kernel's operands.
struct Set {
  std::vector<std::byte*> inputs, outputs;
  std::byte* workspace = nullptr;
};

class Memory {
 public:
  Memory(Device& device, Stream& stream) : device_(device), stream_(stream) {}
  Set set(const KernelDescription& d) {
    Set s;
    for (const Operand& o : d.inputs) s.inputs.push_back(place(o));
    for (const Operand& o : d.outputs) s.outputs.push_back(place(o));
    if (d.workspace > 0) s.workspace = device_.allocate(d.workspace);
    return s;
  }

 private:
  std::byte* place(const Operand& operand) {
    if (!operand.present()) return nullptr;
    std::byte* const memory = device_.allocate(operand.bytes());
    if (!is_storage_float(operand.dtype)) return memory;
    const std::vector<std::byte> values = noise(operand.dtype);
    for (std::int64_t at = 0; at < operand.bytes(); at += std::ssize(values))
      stream_.copy_in(memory + at, values.data(), std::min(std::ssize(values), operand.bytes() - at));
    stream_.synchronize();
    return memory;
  }
  Device& device_;
  Stream& stream_;
};

}  // namespace

Timing time_kernel(Device& device, const KernelDescription& d, std::int64_t cache_bytes) {
  const std::unique_ptr<Stream> stream = device.create_stream(compute_stream);
  std::int64_t bytes = std::max<std::int64_t>(d.workspace, 1);
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands) bytes += o.bytes();
  Memory memory(device, *stream);
  std::vector<Set> sets;
  for (std::int64_t n = std::clamp<std::int64_t>(ceil_div(2 * cache_bytes, bytes), 1, most_copies); n > 0; --n)
    sets.push_back(memory.set(d));

  const std::unique_ptr<Kernel> kernel = d.make();
  const auto bind = [&](std::size_t set) { kernel->bind(sets[set].inputs, sets[set].outputs, sets[set].workspace); };
  bind(0);
  stream->launch(*kernel);  // loads it
  stream->synchronize();
  const auto begin = Clock::now();
  stream->launch(*kernel);
  stream->synchronize();
  const auto enough = std::min(most_runs, static_cast<std::int64_t>(enough_seconds / std::max(seconds_since(begin), 1e-6)));
  const std::int64_t runs = std::max<std::int64_t>(1, ceil_div(enough, std::ssize(sets))) * std::ssize(sets);  // replays follow each other

  // What was captured keeps the addresses that it was bound to then.
  std::unique_ptr<CapturedGraph> graph;
  device.begin_capture(*stream);
  try {
    for (std::int64_t run = 0; run < runs; ++run) {
      bind(static_cast<std::size_t>(run) % sets.size());
      stream->launch(*kernel);
    }
    graph = device.end_capture(*stream);
  } catch (const Error&) {
    if (!graph) try {
        device.end_capture(*stream);
      } catch (const Error&) {  // it had ended
      }
    return {std::numeric_limits<double>::infinity()};
  }
  // Three replays less one: without the start and the wait.
  const auto replay = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) graph->launch(*stream);
    stream->synchronize();
    return seconds_since(start);
  };
  replay(1);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const double one = replay(1);
    seconds.push_back((replay(3) - one) / 2 / static_cast<double>(runs));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return {std::max(seconds[rounds / 2], 1e-9)};
}

}  // namespace tandem::cuda
