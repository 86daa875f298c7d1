// What a session keeps on one device. All of it is called in that device's worker thread.
#pragma once
#include "runtime/program.h"

namespace tandem {

class DeviceRuntime {
 public:
  // Opens the device of the plan and allocates the arenas of `plan` for it.
  DeviceRuntime(const Plan& plan, std::size_t device, const Backend& backend);

  // Makes the plan's program, on arenas that are there already where they are large enough, and loads its constants.
  void add(const Plan& plan, CollectiveGroup* group, int first_channel);
  Program& program(std::size_t index) { return *programs_[index]; }

  // `bytes` lie as the parameter's operand says.
  void write(const PlanParameter& parameter, std::span<const std::byte> bytes);
  void read(const PlanParameter& parameter, std::span<std::byte> bytes);

  std::int64_t allocated_bytes() const;

 private:
  struct Block {
    ArenaKind kind;
    std::byte* memory;
    std::int64_t bytes;
  };
  struct LoadedConstant {
    Tensor tensor;
    Operand operand;
    std::byte* memory;
  };
  std::byte* arena(ArenaKind kind, std::int64_t bytes);
  std::byte* allocate(ArenaKind kind, std::int64_t bytes);
  std::vector<std::byte*> place_constants(const DevicePlan& device);
  std::byte* find_constant(const Buffer& buffer) const;
  std::byte* address_of(const PlanParameter& parameter) const;
  void load(const Buffer& buffer, std::byte* memory);

  const Backend& backend_;
  const std::size_t index_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Block> blocks_;
  std::vector<LoadedConstant> constants_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace tandem
