#include "importer/write/given_weights.h"

#include <algorithm>

#include "graph/cast_values.h"
#include "importer/batch/rebatch.h"
#include "importer/flat/constant_nodes.h"

namespace tandem {
namespace {

// What the model holds where nothing else is given: constants too may have adapters.
Tensor held_by_template(const FlatModel& flat, const std::string& name) {
  for (const FlatInitializer& i : flat.main.initializers)
    if (flat.name(i.symbol) == name && i.data) return *i.data;
  for (const FlatNode& n : flat.main.nodes)
    if (n.op == "Constant" && n.outputs.size() == 1 && n.outputs[0].present() && flat.name(n.outputs[0]) == name)
      return constant_value(n.attributes);
  fail("weight '", name, "' has no value, neither in the template nor given");
}

}  // namespace

GivenWeights::GivenWeights(const ModelFile::Impl& impl, const ModelFile::WeightSource& source, const Graph& parameters, bool merged)
    : impl_(impl), source_(source) {
  std::map<std::string_view, const Value*> known;
  for (const Value& v : parameters.values)
    if (v.kind == ValueKind::parameter) known[v.name] = &v;
  for (const auto& [name, type] : source.weights) {
    const auto it = known.find(name);
    if (it == known.end()) fail("weight '", name, "' is none of the template's");
    add(name, type, *it->second);
  }
  for (const TemplateTensor& t : impl.flat.tensors) types_[t.name] = t.type.dtype;
  if (merged) add_merged();
  for (const LookedUp& l : impl.flat.looked_up)
    if (const std::string name = impl.flat.name(l.symbol); has(name)) looked_up_[name] = &l;
  for (const Tie& tie : impl.flat.ties)
    if (has(impl.flat.name(tie.leader))) ties_[impl.flat.name(tie.follower)] = &tie;
}

// A template may hold a weight once for each sample of its batch; it is trained as one, and written in the template's shape again: along
// the only axis in which `type` differs the template holds it several times (what is computed from a weight may have several rows for each
// sample: one for each head).
void GivenWeights::add(const std::string& name, const TensorType& type, const Value& parameter) {
  const TensorType& wanted = parameter.type;
  Weight weight{wanted, {}};
  if (type != wanted) {
    const Shape& shape = wanted.shape;
    const auto refuse = [&] { fail("weight '", name, "' is ", type, ", the template's is ", wanted); };
    if (type.dtype != wanted.dtype || type.shape.rank() != shape.rank()) refuse();
    const auto [mine, theirs] = std::mismatch(type.shape.begin(), type.shape.end(), shape.begin());
    if (mine == type.shape.end() || *mine == 0 || *theirs % *mine != 0 || (*mine != 1 && !parameter.data)) refuse();
    const Repeated repeated{{.axis = static_cast<int>(theirs - shape.begin())}, *theirs / *mine};
    Shape all = type.shape;
    all[repeated.place.axis] = *theirs;
    if (all != shape || (parameter.data && !holds_copies(*parameter.data, repeated.place, repeated.samples))) refuse();
    weight.repeated = repeated;
  }
  if (!given_.emplace(name, std::move(weight)).second) fail("weight '", name, "' is given twice");
}

void GivenWeights::add_merged() {
  for (std::size_t i = 0; i < impl_.lora.adapters.size(); ++i) {
    const LoraAdapter& adapter = impl_.lora.adapters[i];
    if (!given_.contains(adapter.a) || !given_.contains(adapter.b)) fail("the adapter of '", adapter.weight, "' is not given");
    adapters_.emplace(adapter.weight, i);
  }
}

bool GivenWeights::has(const std::string& name) const {
  return given_.contains(name) || adapters_.contains(name) || ties_.contains(name);
}

TensorType GivenWeights::type_of(const std::string& name) const {
  const auto weight = given_.find(name);
  if (weight == given_.end() || ties_.contains(name) || looked_up_.contains(name)) return read(name)->type();
  const auto type = types_.find(name);
  return {type == types_.end() ? weight->second.type.dtype : type->second, weight->second.type.shape};
}

Tensor GivenWeights::trained(const std::string& name) const {
  const auto weight = given_.find(name);
  if (weight == given_.end()) return held_by_template(impl_.flat, name);
  Tensor value = source_.read(name);
  const std::optional<Repeated>& repeated = weight->second.repeated;
  return repeated ? repeat_samples(value, repeated->place, 1, repeated->samples) : value;
}

// Weights are trained in float32 or double, whatever the file holds them in.
Tensor GivenWeights::own(const std::string& name) const {
  Tensor value = trained(name);
  const auto [begin, end] = adapters_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    const LoraAdapter& adapter = impl_.lora.adapters[it->second];
    const Tensor a = trained(adapter.a), b = trained(adapter.b);
    if (!given_.contains(name)) value = value.cast(a.dtype());
    merge(adapter, impl_.lora.weights[it->second], a, b, value);
  }
  const auto type = types_.find(name);
  return type == types_.end() || type->second == value.dtype() ? value : cast_later(value, type->second);
}

std::optional<Tensor> GivenWeights::read(const std::string& name) const {
  if (const auto tie = ties_.find(name); tie != ties_.end()) return followed(*tie->second, *read(impl_.flat.name(tie->second->leader)));
  if (!has(name)) return std::nullopt;
  const auto rows = looked_up_.find(name);
  return rows == looked_up_.end() ? own(name) : whole_of(*rows->second, own(name));
}

}  // namespace tandem
