// What a model's weights become: constants, parameters, copies that follow another one, rows that are picked from a table.
#include <algorithm>

#include "importer/build/builder.h"
#include "importer/weights/looked_up.h"

namespace tandem {

void Builder::initializer(const FlatInitializer& i) {
  hold(i);
  repeat_copies(i.symbol);
}

void Builder::hold(const FlatInitializer& i) {
  widest_ = std::max(widest_, i.type.shape.elements());
  std::optional<Tensor> data = i.data;
  if (data) data = wanted(*data);
  if (holding(i.symbol) == Holding::constant && data) {
    value(i.symbol) = graph().add_constant(name(i.symbol), *data);
  } else if (const LookedUp* l = looked_up_there(model_, i.symbol)) {
    value(i.symbol) = looked_up(*l, rows_of(*l, *data));
  } else if (is_float(i.type.dtype)) {
    value(i.symbol) = parameter(i.symbol, {wanted(i.type.dtype), i.type.shape}, std::move(data));
    const std::vector<Symbol>& single = model_.single_biases;
    if (options_.training && std::find(single.begin(), single.end(), i.symbol) != single.end())
      value(i.symbol) = single_bias(value(i.symbol));
  } else {
    built_.problems.push_back({.reason = concat("initializer '", name(i.symbol), "' ",
                                                i.type.dtype == DType::string ? "holds strings, which are not supported"
                                                                              : concat("of ", i.type, " has no values"))});
  }
}

// The different rows are the parameter; every place picks its own.
ValueId Builder::looked_up(const LookedUp& l, Tensor rows) {
  const TensorType type = rows.type();
  const ValueId held = parameter(l.symbol, type, std::move(rows));
  const std::string& called = name(l.symbol);
  const std::string places = called + "/rows";
  ValueId row_at = graph().add_constant(places, Tensor::of<std::int64_t>(l.places(), l.row_at));
  if (own_)  // of what was repeated for each sample of the file's batch every sample picks its own
    if (const auto own = own_->built.graph.find(places)) row_at = rebatch_->once(graph(), row_at, *own, budget_);
  GraphBuilder b(graph(), called, {});
  const ValueId picked = b.emit("Gather", {held, row_at}, {{"axis", std::int64_t{0}}});
  Ints perm(static_cast<std::size_t>(l.shape.rank()));  // the rows' own axis is the last of what was picked
  for (int i = 0, from = 0; i < l.shape.rank(); ++i) perm[static_cast<std::size_t>(i)] = i == l.axis ? l.shape.rank() - 1 : from++;
  return b.transpose(picked, perm);
}

// The first half, beside zeros: no gradient reaches the second.
ValueId Builder::single_bias(ValueId whole) {
  const TensorType type = graph()[whole].type;
  const std::int64_t half = type.shape[1] / 2;
  const std::string called = graph()[whole].name;
  const ValueId zeros = graph().add_constant(called + "/second", Tensor(TensorType{type.dtype, Shape{type.shape[0], half}}));
  GraphBuilder b(graph(), called, {});
  const ValueId first = b.emit("Slice", {whole}, {{"starts", Ints{0}}, {"ends", Ints{half}}, {"axes", Ints{1}}, {"steps", Ints{1}}});
  return b.emit("Concat", {first, zeros}, {{"axis", std::int64_t{1}}});
}

bool Builder::follows(Symbol s) const {
  return std::any_of(model_.ties.begin(), model_.ties.end(), [&](const Tie& t) { return t.follower == s; });
}

void Builder::follow(const Tie& tie) {
  const ValueId leader = value(tie.leader);
  if (!leader.present()) return;
  value(tie.follower) = leader;
  GraphBuilder b(graph(), name(tie.follower), {});
  ValueId now = leader;
  if (tie.transposed) now = b.transpose(now, {1, 0});
  if (const std::vector<std::int64_t>& at = tie.places; !at.empty()) {
    const auto count = static_cast<std::int64_t>(at.size());
    now = b.reshape(now, Shape{b.shape(now).elements()});
    const bool row = std::adjacent_find(at.begin(), at.end(), [](std::int64_t x, std::int64_t y) { return y != x + 1; }) == at.end();
    now = row ? b.emit("Slice", {now}, {{"starts", Ints{at.front()}}, {"ends", Ints{at.back() + 1}}, {"axes", Ints{0}}, {"steps", Ints{1}}})
              : b.emit("Gather", {now, graph().add_constant(name(tie.follower) + "/places", Tensor::of<std::int64_t>(Shape{count}, at))},
                       {{"axis", std::int64_t{0}}});
  }
  now = b.reshape(now, tie.shape);
  if (tie.scale != 1) now = b.mul(now, tie.scale);
  if (tie.offset != 0) now = b.add(now, tie.offset);
  if (tie.detached) now = b.emit("StopGradient", {now});
  if (now == leader) return;
  value(tie.follower) = now;
  graph()[now].name = name(tie.follower);
}

ValueId Builder::parameter(Symbol symbol, TensorType type, std::optional<Tensor> data) {
  return graph().add_parameter(name(symbol), std::move(type), std::move(data),
                               options_.training && holding(symbol) == Holding::trained);
}

}  // namespace tandem
