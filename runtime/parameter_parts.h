// Between the template's tensor and what a device keeps of it; never in a step.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// The template's tensor, or what of it the part is, as it lies in memory, seen in the device's shape.
Operand source_of(const PlanParameter& parameter, const ParameterPart& part);
// The part's bytes as the device keeps them, of the template's tensor, of whose source no more than these is read.
std::vector<std::byte> cut_part(const PlanParameter& parameter, const ParameterPart& part, const Tensor& whole);
// The other way: the part's values row-major, of the template's tensor.
std::vector<std::byte> in_template_order(const PlanParameter& parameter, const ParameterPart& part, std::span<const std::byte> kept);
// Whether it is all of the tensor, and lies as the template's does: nothing is cut, nothing moves.
bool lies_as_template(const PlanParameter& parameter, const ParameterPart& part);
// Puts what the device keeps to its place in the template's tensor.
void put_part(const PlanParameter& parameter, const ParameterPart& part, std::span<const std::byte> kept, std::span<std::byte> whole);

// cut_part for several devices; those that keep the same share it, and what lies as in `whole`, which has to outlive it, is no copy. Null
// parts: nothing.
class CutParameter {
 public:
  CutParameter(const PlanParameter& parameter, std::span<const std::optional<ParameterPart>> parts, const Tensor& whole);
  std::span<const std::byte> bytes_of(const ParameterPart& part) const;

 private:
  const PlanParameter& parameter_;
  const Tensor& whole_;
  std::vector<std::pair<const ParameterPart*, std::vector<std::byte>>> cut_;
};

// "float32[3]:a at 64 of device 0 in the plan to add, float32[3]:a at 0 of device 0", where two plans keep a parameter differently.
std::string difference(const Plan& plan, const PlanParameter& to_add, const Plan& first_plan, const PlanParameter& first);

}  // namespace tandem
