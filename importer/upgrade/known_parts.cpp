#include "importer/upgrade/known_parts.h"

#include <algorithm>
#include <optional>

#include "graph/operators/rules.h"

namespace tandem {
namespace {

std::optional<Ints> known_integers(UpgradeContext& c, std::size_t input, const char* attribute) {
  if (c.draft.attributes.has(attribute)) return c.draft.attributes.ints(attribute);
  if (input >= c.draft.inputs.size() || !c.draft.inputs[input].present()) return std::nullopt;
  const Value& v = c.graph()[c.draft.inputs[input]];
  if (v.kind != ValueKind::constant || (v.type.dtype != DType::int64 && v.type.dtype != DType::int32)) return std::nullopt;
  return v.data->to_int64s();
}

}  // namespace

void slice_known_parts(UpgradeContext& c) {
  const Graph& graph = c.graph();
  const NodeId made = c.draft.inputs.empty() || !c.draft.inputs[0].present() ? NodeId{} : graph[c.draft.inputs[0]].producer;
  if (!made.present() || graph[made].op->name != "Concat") return;
  const std::vector<ValueId> parts = graph[made].inputs;
  if (std::none_of(parts.begin(), parts.end(), [&](ValueId p) { return graph[p].kind == ValueKind::constant; })) return;
  const std::optional<Ints> starts = known_integers(c, 1, "starts"), ends = known_integers(c, 2, "ends"),
                            steps = known_integers(c, 4, "steps");
  const Ints axes = known_integers(c, 3, "axes").value_or(Ints{0});
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1 || axes.size() != 1 || (steps && *steps != Ints{1})) return;
  const int rank = c.shape(0).rank(), axis = static_cast<int>(graph[made].attributes.integer("axis"));
  if ((axes[0] < 0 ? axes[0] + rank : axes[0]) != axis) return;
  const std::int64_t length = c.shape(0)[axis];
  const auto within = [&](std::int64_t place) { return std::clamp<std::int64_t>(place < 0 ? place + length : place, 0, length); };
  const std::int64_t begin = within((*starts)[0]), end = within((*ends)[0]);
  std::vector<ValueId> taken;
  std::int64_t at = 0, first = 0;
  for (const ValueId part : parts) {
    const std::int64_t next = at + graph[part].type.shape[axis];
    if (at < end && next > begin) {
      if (taken.empty()) first = at;
      taken.push_back(part);
    }
    at = next;
  }
  if (taken.empty() || taken.size() == parts.size()) return;
  const ValueId joined = taken.size() == 1 ? taken[0] : c.emit("Concat", taken, {{"axis", std::int64_t{axis}}});
  c.draft.inputs = {joined};
  c.draft.attributes = {{"starts", Ints{begin - first}}, {"ends", Ints{end - first}}, {"axes", Ints{axis}}};
}

void count_regions(UpgradeContext& c) {
  if (c.draft.inputs.size() != 3 || c.shape(0).rank() != 4 || c.shape(2).rank() != 1) return;
  const Value& indices = c.graph()[c.draft.inputs[2]];
  const std::int64_t images = c.shape(0)[0], regions = indices.type.shape[0];
  if (indices.kind != ValueKind::constant || indices.type.dtype != DType::int64 || images == 0 || regions == 0 || regions % images != 0)
    return;
  const Ints numbers = indices.data->to_int64s();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<std::int64_t>(i) / (regions / images)) return;
  c.draft.attributes.set("regions", regions / images);
}

}  // namespace tandem
