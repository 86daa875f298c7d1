#include "runtime/parameter_parts.h"

#include <algorithm>

#include "graph/index_runs.h"
#include "runtime/reorder.h"

namespace tandem {
namespace {

// As graph/index_runs.h's, over all of the tensor.
template <class Move>
void for_each_run(const PlanParameter& p, const ParameterPart& part, const Move& move) {
  tandem::for_each_run(p.type, runs_of(p.type.shape, part.ranges), 0, bytes_of(p.type), move);
}

}  // namespace

Operand source_of(const PlanParameter& p, const ParameterPart& part) {
  return {part.operand.dtype, part.operand.shape, p.source.any() ? Layout::row_major(part.operand.shape.rank()) : p.source};
}

std::vector<std::byte> cut_part(const PlanParameter& p, const ParameterPart& part, const Tensor& whole) {
  std::vector<std::byte> kept(static_cast<std::size_t>(part.operand.bytes())), cut;
  if (!part.is_whole()) {
    cut.resize(static_cast<std::size_t>(part.operand.shape.elements()) * size_of(p.type.dtype));
    for_each_run(p, part, [&](std::int64_t from, std::int64_t to, std::int64_t bytes) {
      whole.read(std::span(cut).subspan(static_cast<std::size_t>(to), static_cast<std::size_t>(bytes)), from);
    });
  }
  reorder(source_of(p, part), part.is_whole() ? whole.bytes() : std::span<const std::byte>(cut), part.operand, kept);
  return kept;
}

std::vector<std::byte> in_template_order(const PlanParameter& p, const ParameterPart& part, std::span<const std::byte> kept) {
  std::vector<std::byte> cut(static_cast<std::size_t>(part.operand.shape.elements()) * size_of(p.type.dtype));
  reorder(part.operand, kept, source_of(p, part), cut);
  return cut;
}

bool lies_as_template(const PlanParameter& p, const ParameterPart& part) {
  const Operand source = source_of(p, part);
  return part.is_whole() && same_memory(source.shape, source.layout, part.operand.shape, part.operand.layout);
}

void put_part(const PlanParameter& p, const ParameterPart& part, std::span<const std::byte> kept, std::span<std::byte> whole) {
  if (part.is_whole()) return reorder(part.operand, kept, source_of(p, part), whole);
  const std::vector<std::byte> cut = in_template_order(p, part, kept);
  for_each_run(p, part, [&](std::int64_t to, std::int64_t from, std::int64_t bytes) {
    std::copy_n(cut.begin() + from, bytes, whole.begin() + to);
  });
}

CutParameter::CutParameter(const PlanParameter& parameter, std::span<const std::optional<ParameterPart>> parts,
                           const Tensor& whole)
    : parameter_(parameter), whole_(whole) {
  for (const std::optional<ParameterPart>& part : parts)
    if (part && !lies_as_template(parameter, *part) &&
        std::none_of(cut_.begin(), cut_.end(), [&](const auto& c) { return c.first->alike(*part); }))
      cut_.emplace_back(&*part, cut_part(parameter, *part, whole));
}

std::span<const std::byte> CutParameter::bytes_of(const ParameterPart& part) const {
  if (lies_as_template(parameter_, part)) return whole_.bytes();
  return std::find_if(cut_.begin(), cut_.end(), [&](const auto& c) { return c.first->alike(part); })->second;
}

std::string difference(const Plan& plan, const PlanParameter& to_add, const Plan& first_plan, const PlanParameter& first) {
  const std::vector<ParameterPart> parts = plan.parts_of(to_add), first_parts = first_plan.parts_of(first);
  if (parts == first_parts && to_add.arena == first.arena && to_add.type == first.type && to_add.source == first.source) return "";
  const auto [here, there] = std::mismatch(parts.begin(), parts.end(), first_parts.begin(), first_parts.end());
  const auto text = [](const PlanParameter& of, const std::vector<ParameterPart>& all, auto part) {
    return part == all.end() ? concat(of.type, " in ", all.size(), " parts")
                             : concat(part->operand, " at ", part->offset, " of device ", part->device);
  };
  return concat(text(to_add, parts, here), " in the plan to add, ", text(first, first_parts, there));
}

}  // namespace tandem
