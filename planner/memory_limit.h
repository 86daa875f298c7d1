// Whether a plan fits on its devices.
#pragma once
#include <functional>

#include "planner/options.h"

namespace tandem {

class BatchTooLarge final : public Error {
 public:
  BatchTooLarge(const std::string& message, std::int64_t fitting) : Error(ExitCode::device, message), fits(fitting) {}
  std::int64_t fits;  // the largest batch that does, at least 1
};

// Fails (BatchTooLarge; device where not even one sample fits) where a device has less memory than the plan puts there, or less that is
// free (options.memory.free, where that is known), with where the memory goes and the largest batch that fits, which `compile` is asked
// for.
// Ways to train that batch nevertheless are told, each with its option and what it takes: activations computed again, micro-batches,
// parameters in parts.
using Compile = std::function<Plan(const CompileOptions&)>;
void check_memory(const Plan& plan, CompileOptions options, const Compile& compile);
// Fails so with this message, which ends before the largest batch; `help` follows it.
[[noreturn]] void refuse_batch(const std::string& message, CompileOptions options, const Compile& compile, const std::string& help = {});
// The bytes that a plan may take on each of its devices, as check_memory has them; none where it takes no more.
std::vector<std::int64_t> room_for(const Plan& plan, const CompileOptions& options);

}  // namespace tandem
