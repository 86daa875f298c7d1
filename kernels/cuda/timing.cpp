#include "kernels/cuda/timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/cuda/bodies/types.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/timed_operands.h"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr std::int64_t most_copies = 16, most_runs = 16;
constexpr double enough_seconds = 0.003;  // of one graph
constexpr int replays = 3;
constexpr std::int64_t least_block = 256 << 20;  // bytes

// Numbers are from 1/2 to 3/2, so that nothing overflows and roots are real. Masks are mixed. Integers are those that were asked for.
std::vector<std::byte> noise_of(DType dtype, const TimedIntegers& integers) {
  constexpr std::size_t elements = 1 << 18;
  std::vector<std::byte> bytes(elements * size_of(dtype));
  std::mt19937 random(1);
  const auto fill = [&]<class T>(const auto& next) {
    for (std::size_t i = 0; i < elements; ++i) {
      const T value = next();
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (is_storage_float(dtype)) {
    std::uniform_real_distribution<float> number(0.5F, 1.5F);
    visit_storage(dtype, [&]<class T>() { fill.template operator()<T>([&] { return store<T>(number(random)); }); });
  } else if (dtype == DType::boolean) {
    fill.template operator()<std::uint8_t>([&] { return static_cast<std::uint8_t>(random() % 2); });
  } else if (integers.most > 0) {
    std::uniform_int_distribution<std::int64_t> integer(integers.least, integers.most);
    visit_number(dtype, [&]<class T>() { fill.template operator()<T>([&] { return static_cast<T>(integer(random)); }); });
  }
  return bytes;
}

}  // namespace

// Memory for the kernel's operands, once.
struct KernelTimer::Set {
  std::vector<std::byte*> inputs, outputs;
  std::byte* workspace = nullptr;
};

KernelTimer::KernelTimer(std::unique_ptr<Device> device, std::int64_t cache_bytes)
    : device_(std::move(device)), stream_(device_->create_stream(compute_stream)), cache_bytes_(cache_bytes) {}
KernelTimer::~KernelTimer() = default;

std::byte* KernelTimer::take(std::int64_t bytes) {
  const std::int64_t size = align_up(std::max<std::int64_t>(bytes, 1));
  auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.bytes - b.used >= size; });
  if (block == blocks_.end()) {
    const std::int64_t whole = std::max(size, least_block);
    block = blocks_.insert(blocks_.end(), {device_->allocate(whole), whole});
  }
  block->used += size;
  return block->memory + block->used - size;
}

const KernelTimer::Block& KernelTimer::noise(DType dtype, const TimedIntegers& integers) {
  Block& block = noise_[{dtype, integers}];
  if (!block.memory) {
    const std::vector<std::byte> values = noise_of(dtype, integers);
    block = {device_->allocate(std::ssize(values)), std::ssize(values)};
    stream_->copy_in(block.memory, values.data(), block.bytes);
    stream_->synchronize();
  }
  return block;
}

std::byte* KernelTimer::filled(const Operand& operand, const TimedIntegers& integers) {
  if (!operand.present()) return nullptr;
  std::byte* const memory = take(operand.bytes());
  const Block& from = noise(operand.dtype, integers);
  for (std::int64_t at = 0, piece = 0; at < operand.bytes(); at += piece) {  // twice as much each time
    piece = std::min(std::max(at, from.bytes), operand.bytes() - at);
    stream_->copy(memory + at, at == 0 ? from.memory : memory, piece);
  }
  if (may_be_scalars(operand)) stream_->fill(memory + offsetof(StepScalars, skip), std::byte{}, sizeof(StepScalars::skip));
  return memory;
}

KernelTimer::Set KernelTimer::set_of(const KernelDescription& d) {
  Set s;
  for (std::size_t i = 0; i < d.inputs.size(); ++i) s.inputs.push_back(filled(d.inputs[i], timed_integers(d, i).value_or(TimedIntegers{})));
  for (const Operand& o : d.outputs) s.outputs.push_back(filled(o, {}));
  if (d.workspace > 0) s.workspace = take(d.workspace);
  return s;
}

Timing KernelTimer::time(const KernelDescription& d) {
  device_->activate();
  for (Block& block : blocks_) block.used = 0;
  std::int64_t bytes = std::max<std::int64_t>(d.workspace, 1);
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands) bytes += o.bytes();
  std::vector<Set> sets;
  for (std::int64_t n = std::clamp<std::int64_t>(ceil_div(2 * cache_bytes_, bytes), 1, most_copies); n > 0; --n) sets.push_back(set_of(d));

  const std::unique_ptr<Kernel> kernel = d.make();
  const auto bind = [&](std::size_t set) { kernel->bind(sets[set].inputs, sets[set].outputs, sets[set].workspace); };
  bind(0);
  stream_->launch(*kernel);  // loads it
  stream_->synchronize();
  const auto begin = Clock::now();
  stream_->launch(*kernel);
  stream_->synchronize();
  const auto enough = std::min(most_runs, static_cast<std::int64_t>(enough_seconds / std::max(seconds_since(begin), 1e-6)));
  const std::int64_t runs = std::max<std::int64_t>(1, ceil_div(enough, std::ssize(sets))) * std::ssize(sets);  // replays follow each other

  // What was captured keeps the addresses that it was bound to then.
  std::unique_ptr<CapturedGraph> graph;
  device_->begin_capture(*stream_);
  try {
    for (std::int64_t run = 0; run < runs; ++run) {
      bind(static_cast<std::size_t>(run) % sets.size());
      stream_->launch(*kernel);
    }
    graph = device_->end_capture(*stream_);
  } catch (const Error&) {
    if (!graph) try {
        device_->end_capture(*stream_);
      } catch (const Error&) {  // it had ended
      }
    return {std::numeric_limits<double>::infinity()};
  }
  const auto replay = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) graph->launch(*stream_);
    stream_->synchronize();
    return seconds_since(start);
  };
  replay(1);
  // Without the start and the wait, which one replay has, too; what disturbs that one alone must not make the rest look short.
  const double one = replay(1), more = replay(1 + replays);
  return {std::max({(more - one) / replays, 0.5 * more / (1 + replays), 1e-9 * static_cast<double>(runs)}) / static_cast<double>(runs)};
}

}  // namespace tandem::cuda
