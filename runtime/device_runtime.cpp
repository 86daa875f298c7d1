#include "runtime/device_runtime.h"

#include <algorithm>
#include <cstdlib>

#include "planner/plan/format.h"
#include "planner/plan/step_parts.h"
#include "runtime/exchange_specs.h"
#include "runtime/reorder.h"

namespace tandem {
namespace {

// Where a buffer of no bytes lies: not null, which says that an operand is absent.
std::byte* nowhere() {
  alignas(64) static std::byte place[64];
  return place;
}

}  // namespace

DeviceRuntime::DeviceRuntime(const Plan& plan, std::size_t device, const Backend& backend)
    : backend_(backend), index_(device), streams_(plan_streams) {
  const int threads = plan.program_of(device).model.threads;
  KernelOptions options = plan.options;
  if (threads > 0) options.threads = threads;
  device_ = backend.open(plan.devices[device].device.index, options);
  device_->activate();
  streams_[0] = device_->create_stream(compute_stream);
}

std::byte* DeviceRuntime::arena(const Arena& arena, bool summed) {
  const bool persistent = arena.kind == ArenaKind::parameters || arena.kind == ArenaKind::optimizer;
  if (persistent ? !programs_.empty() : arena.kind != ArenaKind::constants)
    for (const Block& b : blocks_)
      if (b.kind == arena.kind && (persistent || b.bytes >= arena.bytes)) return b.memory;
  if (arena.bytes == 0 || (persistent && !programs_.empty())) return nowhere();
  blocks_.push_back({arena.kind, summed ? device_->allocate_summed(arena.bytes) : device_->allocate(arena.bytes), arena.bytes});
  return blocks_.back().memory;
}

std::int64_t DeviceRuntime::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const Block& b : blocks_) sum += b.bytes;
  return sum;
}

void DeviceRuntime::load(const Buffer& constant, std::byte* memory) {
  const Operand& to = constant.operand;
  std::vector<std::byte> bytes(static_cast<std::size_t>(to.bytes()));
  reorder({to.dtype, to.shape, Layout::row_major(to.shape.rank())}, constant.constant->bytes(), to, bytes);
  if (bytes.empty()) return;
  streams_[0]->copy_in(memory, bytes.data(), std::ssize(bytes));
  streams_[0]->synchronize();
}

void DeviceRuntime::add(const ExpandedPlan& expanded, CollectiveGroup* group, std::span<const ExchangeSpec> exchanges) {
  const Plan& plan = expanded.plan;
  const DeviceId& name = plan.devices[index_].device;
  const DeviceProgram& device = plan.program_of(index_);
  for (const Step& s : device.steps)
    if (auto& stream = streams_[static_cast<std::size_t>(s.stream)]; !stream) stream = device_->create_stream(s.stream);
  const bool stages =
      std::any_of(device.steps.begin(), device.steps.end(), [](const Step& s) { return s.as<SliceStep>() && s.workspace.present(); });
  if (stages && !staging_.stream)
    staging_ = {.stream = device_->create_stream(copy_stream),
                .taken = device_->create_event(),
                .filled = {device_->create_event(), device_->create_event()}};
  std::vector<std::byte*> bases;
  for (const Arena& a : device.arenas) bases.push_back(arena(a, group && group->registers() && a.kind == ArenaKind::gradients));
  const std::int64_t alignment = backend_.model(name.index, 1).alignment;
  std::vector<std::byte*> addresses;
  for (const Buffer& b : device.buffers) {
    if (b.offset % alignment != 0)
      fail(ExitCode::device, "the plan has '", b.name, "' at ", b.offset, ", and ", name, " wants multiples of ", alignment,
           ": a plan of an older version is to be made again");
    addresses.push_back(b.bytes == 0 ? nowhere() : bases[static_cast<std::size_t>(b.arena)] + b.offset);
    if (b.constant) load(b, addresses.back());
  }
  const std::vector<const ExchangeSpec*> own = specs_of(plan, exchanges, static_cast<int>(index_));
  Program::Place place{backend_, *device_, streams_, staging_, group, static_cast<int>(index_), own};
  // To find kernels that read what no kernel of the step wrote.
  const bool goes_on = has_parts(plan) && !programs_.empty();  // with what the part before it has left
  if (std::getenv("TANDEM_POISON_SCRATCH") && !goes_on)
    for (std::size_t i = 0; i < bases.size(); ++i)
      if (device.arenas[i].kind == ArenaKind::scratch) place.poisoned = {bases[i], static_cast<std::size_t>(device.arenas[i].bytes)};
  programs_.push_back(std::make_unique<Program>(expanded, index_, place, addresses));
}

std::byte* DeviceRuntime::address_of(ArenaKind arena, const ParameterPart& part) const {
  for (const Block& b : blocks_)
    if (b.kind == arena) return b.memory + part.offset;
  return nowhere();
}

void DeviceRuntime::write(ArenaKind arena, const ParameterPart& part, std::span<const std::byte> bytes, std::int64_t offset) {
  if (bytes.empty()) return;
  streams_[0]->copy_in(address_of(arena, part) + offset, bytes.data(), std::ssize(bytes));
  streams_[0]->synchronize();
}

void DeviceRuntime::read(ArenaKind arena, const ParameterPart& part, std::span<std::byte> bytes, std::int64_t offset) {
  if (bytes.empty()) return;
  streams_[0]->copy_out(bytes.data(), address_of(arena, part) + offset, std::ssize(bytes));
  streams_[0]->synchronize();
}

}  // namespace tandem
