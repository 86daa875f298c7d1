#include "runtime/device_runtime.h"

#include <algorithm>

#include "runtime/reorder.h"

namespace tandem {
namespace {

constexpr int stream_count = 3;

// Where a buffer of no bytes lies: not null, which says that an operand is absent.
std::byte* nowhere() {
  alignas(64) static std::byte place[64];
  return place;
}

const Arena& arena_of(const DevicePlan& device, ArenaKind kind) { return device.arenas[static_cast<std::size_t>(kind)]; }

}  // namespace

DeviceRuntime::DeviceRuntime(const Plan& plan, std::size_t device, const Backend& backend) : backend_(backend), index_(device) {
  const DevicePlan& d = plan.devices[device];
  KernelOptions options = plan.options;
  if (d.model.threads > 0) options.threads = d.model.threads;
  device_ = backend.open(d.device.index, options);
  device_->activate();
  for (int s = 0; s < stream_count; ++s) {
    const bool used = s == 0 || std::any_of(d.steps.begin(), d.steps.end(), [&](const Step& step) { return step.stream == s; });
    streams_.push_back(used ? device_->create_stream(s) : nullptr);
  }
  for (const Arena& a : d.arenas) arena(a.kind, a.bytes);
}

// The arena of a plan: the block that is there, or a further one where that is too small. Programs bound to the smaller
// one keep it: a session whose largest plan comes first takes exactly that plan's bytes.
std::byte* DeviceRuntime::arena(ArenaKind kind, std::int64_t bytes) {
  if (bytes == 0) return nowhere();
  for (const Block& b : blocks_)
    if (b.kind == kind && b.bytes >= bytes) return b.memory;
  return allocate(kind, bytes);
}

std::byte* DeviceRuntime::allocate(ArenaKind kind, std::int64_t bytes) {
  blocks_.push_back({kind, device_->allocate(bytes), bytes});
  return blocks_.back().memory;
}

std::int64_t DeviceRuntime::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const Block& b : blocks_) sum += b.bytes;
  return sum;
}

std::byte* DeviceRuntime::find_constant(const Buffer& buffer) const {
  for (const LoadedConstant& c : constants_)
    if (c.operand == buffer.operand && std::ranges::equal(c.tensor.bytes(), buffer.constant->bytes())) return c.memory;
  return nullptr;
}

void DeviceRuntime::load(const Buffer& buffer, std::byte* memory) {
  const Operand& to = buffer.operand;
  const Operand from{to.dtype, to.shape, Layout::row_major(to.shape.rank())};
  std::vector<std::byte> bytes(static_cast<std::size_t>(to.bytes()));
  reorder(from, buffer.constant->bytes(), to, bytes);
  streams_[0]->copy_in(memory, bytes.data(), std::ssize(bytes));
  streams_[0]->synchronize();
  constants_.push_back({*buffer.constant, to, memory});
}

// Addresses of the constants, null for other buffers. The first plan's lie where it says. A further plan's would lie on
// other things there: it shares equal ones and has the rest in a block of its own.
std::vector<std::byte*> DeviceRuntime::place_constants(const DevicePlan& device) {
  std::vector<std::byte*> memory(device.buffers.size(), nullptr);
  std::int64_t more = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Buffer& b = device.buffers[i];
    if (!b.constant || b.bytes == 0) continue;
    if (programs_.empty()) {
      memory[i] = arena(ArenaKind::parameters, arena_of(device, ArenaKind::parameters).bytes) + b.offset;
      if (!b.alias.present()) load(b, memory[i]);
    } else if (!(memory[i] = find_constant(b))) {
      more += b.bytes;
    }
  }
  if (more == 0) return memory;
  std::byte* next = allocate(ArenaKind::parameters, more);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Buffer& b = device.buffers[i];
    if (!b.constant || b.bytes == 0 || memory[i]) continue;
    load(b, memory[i] = next);
    next += b.bytes;
  }
  return memory;
}

void DeviceRuntime::add(const Plan& plan, CollectiveGroup* group, int first_channel) {
  const DevicePlan& device = plan.devices[index_];
  for (const Step& s : device.steps)
    if (auto& stream = streams_[static_cast<std::size_t>(s.stream)]; !stream) stream = device_->create_stream(s.stream);

  std::vector<std::byte*> bases;
  for (const Arena& a : device.arenas) {
    const bool persistent = a.kind == ArenaKind::parameters || a.kind == ArenaKind::optimizer;
    const auto first = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.kind == a.kind; });
    bases.push_back(!persistent ? arena(a.kind, a.bytes) : first == blocks_.end() ? nowhere() : first->memory);
  }
  const std::vector<std::byte*> constants = place_constants(device);
  std::vector<std::byte*> addresses(device.buffers.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Buffer& b = device.buffers[i];
    std::size_t root = i;
    while (device.buffers[root].alias.present()) root = static_cast<std::size_t>(device.buffers[root].alias.index);
    if (b.bytes == 0) addresses[i] = nowhere();
    else if (constants[root]) addresses[i] = constants[root] + (b.offset - device.buffers[root].offset);
    else addresses[i] = bases[static_cast<std::size_t>(b.arena)] + b.offset;
  }
  programs_.push_back(std::make_unique<Program>(
      plan, index_, Program::Place{backend_, *device_, streams_, group, static_cast<int>(index_), first_channel}, addresses));
}

std::byte* DeviceRuntime::address_of(const PlanParameter& parameter) const {
  for (const Block& b : blocks_)
    if (b.kind == parameter.arena) return b.memory + parameter.offset;
  return nowhere();
}

void DeviceRuntime::write(const PlanParameter& parameter, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  streams_[0]->copy_in(address_of(parameter), bytes.data(), std::ssize(bytes));
  streams_[0]->synchronize();
}

void DeviceRuntime::read(const PlanParameter& parameter, std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  streams_[0]->copy_out(bytes.data(), address_of(parameter), std::ssize(bytes));
  streams_[0]->synchronize();
}

}  // namespace tandem
