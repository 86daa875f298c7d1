#include "runtime/parameter_parts.h"

#include <algorithm>

#include "runtime/reorder.h"

namespace tandem {
namespace {

// Calls move(offset in the whole, offset in the part, bytes) for each run of memory that a part has. It fits the whole.
template <class Move>
void for_each_run(const PlanParameter& p, const ParameterPart& part, const Move& move) {
  const Shape& shape = p.type.shape;
  int last = 0;  // the last axis that is cut: what lies behind it is whole
  for (const AxisRange& r : part.ranges) last = std::max(last, r.axis);
  std::vector<std::vector<IndexRun>> runs;
  for (int axis = 0; axis <= last; ++axis) runs.push_back(*runs_of(shape[axis], axis, part.ranges));
  std::size_t row = size_of(p.type.dtype), at = 0;
  for (int axis = last + 1; axis < shape.rank(); ++axis) row *= static_cast<std::size_t>(shape[axis]);
  const auto go = [&](const auto& self, int axis, std::size_t before) -> void {
    const auto size = static_cast<std::size_t>(shape[axis]);
    for (const IndexRun& run : runs[static_cast<std::size_t>(axis)]) {
      const auto begin = static_cast<std::size_t>(run.begin), end = static_cast<std::size_t>(run.end);
      if (axis < last) {
        for (std::size_t i = begin; i < end; ++i) self(self, axis + 1, before * size + i);
        continue;
      }
      move((before * size + begin) * row, at, (end - begin) * row);
      at += (end - begin) * row;
    }
  };
  if (part.operand.shape.elements() > 0) go(go, 0, 0);
}

}  // namespace

Operand source_of(const PlanParameter& p, const ParameterPart& part) {
  return {part.operand.dtype, part.operand.shape, p.source.any() ? Layout::row_major(part.operand.shape.rank()) : p.source};
}

std::vector<std::byte> cut_part(const PlanParameter& p, const ParameterPart& part, std::span<const std::byte> whole) {
  std::vector<std::byte> kept(static_cast<std::size_t>(part.operand.bytes())), cut;
  if (!part.is_whole()) {
    cut.resize(static_cast<std::size_t>(part.operand.shape.elements()) * size_of(p.type.dtype));
    for_each_run(p, part, [&](std::size_t from, std::size_t to, std::size_t bytes) {
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(from), bytes, cut.begin() + static_cast<std::ptrdiff_t>(to));
    });
    whole = cut;
  }
  reorder(source_of(p, part), whole, part.operand, kept);
  return kept;
}

bool lies_as_template(const PlanParameter& p, const ParameterPart& part) {
  const Operand source = source_of(p, part);
  return part.is_whole() && same_memory(source.shape, source.layout, part.operand.shape, part.operand.layout);
}

void put_part(const PlanParameter& p, const ParameterPart& part, std::span<const std::byte> kept, std::span<std::byte> whole) {
  if (part.is_whole()) return reorder(part.operand, kept, source_of(p, part), whole);
  std::vector<std::byte> cut(static_cast<std::size_t>(part.operand.shape.elements()) * size_of(p.type.dtype));
  reorder(part.operand, kept, source_of(p, part), cut);
  for_each_run(p, part, [&](std::size_t to, std::size_t from, std::size_t bytes) {
    std::copy_n(cut.begin() + static_cast<std::ptrdiff_t>(from), bytes, whole.begin() + static_cast<std::ptrdiff_t>(to));
  });
}

CutParameter::CutParameter(const PlanParameter& parameter, std::span<const std::optional<ParameterPart>> parts,
                           std::span<const std::byte> whole)
    : parameter_(parameter), whole_(whole) {
  for (const std::optional<ParameterPart>& part : parts)
    if (part && !lies_as_template(parameter, *part) &&
        std::none_of(cut_.begin(), cut_.end(), [&](const auto& c) { return c.first->alike(*part); }))
      cut_.emplace_back(&*part, cut_part(parameter, *part, whole));
}

std::span<const std::byte> CutParameter::bytes_of(const ParameterPart& part) const {
  if (lies_as_template(parameter_, part)) return whole_;
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
