// What a session keeps on one device. All of it is called in that device's worker thread.
#pragma once
#include "runtime/program.h"

namespace tandem {

class DeviceRuntime {
 public:
  // Opens the plan's device.
  DeviceRuntime(const Plan& plan, std::size_t device, const Backend& backend);

  // Allocates the arenas that a plan needs beyond those there are, loads its constants and makes its program. The first
  // plan's parameters and optimizer state are all plans'; gradients and scratch are shared where they are large enough,
  // so a session whose largest plan comes first takes that plan's bytes and the others' constants.
  void add(const ExpandedPlan& expanded, CollectiveGroup* group, std::span<const ExchangeSpec> exchanges);
  Program& program(std::size_t index) { return *programs_[index]; }

  // Of a part that the device keeps in one of the two persistent arenas, from `offset` on; `bytes` lie as its operand says.
  void write(ArenaKind arena, const ParameterPart& part, std::span<const std::byte> bytes, std::int64_t offset = 0);
  void read(ArenaKind arena, const ParameterPart& part, std::span<std::byte> bytes, std::int64_t offset = 0);

  std::byte* allocate_host(std::int64_t bytes) { return device_->allocate_host(bytes); }
  std::int64_t allocated_bytes() const;

 private:
  struct Block {
    ArenaKind kind;
    std::byte* memory;
    std::int64_t bytes;
  };
  std::byte* arena(const Arena& arena, bool summed);
  std::byte* address_of(ArenaKind arena, const ParameterPart& part) const;
  void load(const Buffer& constant, std::byte* memory);

  const Backend& backend_;
  const std::size_t index_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Staging staging_;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace tandem
