// What an exporter wrote twice of a parameter follows it: by its note, and by its values, which tell where each of them stands in the
// parameter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "importer/message/value_tests.h"
#include "importer/weights/looked_up.h"
#include "importer/weights/tie_weights.h"

namespace tandem {
namespace {

constexpr std::int64_t most_places = std::int64_t{1} << 20;  // of a leader whose values are looked for one by one

// offset + x or offset - x, of values that are not all alike.
std::optional<Tie> shifted(Symbol leader, Symbol follower, const Tensor& from, const Tensor& to) {
  if (from.dtype() != DType::float32 || from.type() != to.type() || all_alike(from)) return std::nullopt;
  const std::vector<double> x = from.to_doubles(), y = to.to_doubles();
  for (const double scale : {-1.0, 1.0}) {
    const double offset = static_cast<float>(y[0] - scale * x[0]);
    bool fits = std::isfinite(offset);
    for (std::size_t i = 0; i < x.size() && fits; ++i)
      fits = std::abs(offset + scale * x[i] - y[i]) <= 0x1p-22 * std::max({std::abs(offset), std::abs(x[i]), std::abs(y[i])});
    if (fits)
      return Tie{.leader = leader,
                 .follower = follower,
                 .shape = to.shape(),
                 .scale = static_cast<float>(scale),
                 .offset = static_cast<float>(offset)};
  }
  return std::nullopt;
}

std::uint64_t bits(const Tensor& t, std::int64_t i) {
  std::uint64_t value = 0;
  const std::size_t size = size_of(t.dtype());
  std::memcpy(&value, t.bytes().data() + static_cast<std::size_t>(i) * size, size);
  return value;
}

// For each value of `part` its only place in `whole`. Where values stand there several times, `part` is looked for as a row of them. None
// where something is not there, or may stand at several places.
std::optional<std::vector<std::int64_t>> places_of(const Tensor& part, const Tensor& whole) {
  const std::int64_t n = part.shape().elements(), all = whole.shape().elements();
  if (part.dtype() != whole.dtype() || n == 0 || n > most_places || all > most_places) return std::nullopt;
  constexpr std::int64_t several = -1;
  std::unordered_map<std::uint64_t, std::int64_t> place;
  for (std::int64_t i = 0; i < all; ++i)
    if (const auto [at, is_new] = place.try_emplace(bits(whole, i), i); !is_new) at->second = several;
  std::vector<std::int64_t> places;
  bool unique = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = place.find(bits(part, i));
    if (at == place.end()) return std::nullopt;
    unique = unique && at->second != several;
    places.push_back(at->second);
  }
  if (unique) return places;
  const std::size_t size = size_of(part.dtype());
  std::optional<std::int64_t> begin;
  for (std::int64_t i = 0; i + n <= all; ++i) {
    if (bits(whole, i) != bits(part, 0) || std::memcmp(whole.bytes().data() + static_cast<std::size_t>(i) * size, part.bytes().data(),
                                                       static_cast<std::size_t>(n) * size) != 0)
      continue;
    if (begin) return std::nullopt;
    begin = i;
  }
  if (!begin) return std::nullopt;
  for (std::int64_t i = 0; i < n; ++i) places[static_cast<std::size_t>(i)] = *begin + i;
  return places;
}

Shape squeezed(Shape s) {
  std::erase(s.dims, 1);
  return s;
}

// How `to` is made of the values of `from`.
std::optional<Tie> moved(Symbol leader, Symbol follower, const Tensor& from, const Tensor& to) {
  const Tie tie{.leader = leader, .follower = follower, .shape = to.shape()};
  if (equal(from, to)) return tie;
  if (equal(transposed(from), to)) return Tie{.leader = leader, .follower = follower, .shape = to.shape(), .transposed = true};
  const bool same_bytes = from.dtype() == to.dtype() && from.bytes().size() == to.bytes().size() &&
                          std::equal(from.bytes().begin(), from.bytes().end(), to.bytes().begin());
  if (same_bytes && (!all_alike(from) || squeezed(from.shape()) == squeezed(to.shape()))) return tie;
  std::optional<std::vector<std::int64_t>> places = places_of(to, from);
  if (!places) return std::nullopt;
  return Tie{.leader = leader, .follower = follower, .shape = to.shape(), .places = std::move(*places)};
}

// The first tensor computed from the same parameter, which the file does not hold, where this one's values are the same or a part of them:
// a layer that is used several times is turned, a table looked up, once for each use. Of others into which more values went, or whose
// values are all alike, it is not known which part of the parameter they are.
std::optional<Tie> same_copy(const FlatModel& model, const FlatInitializer& copy, const std::vector<std::string>& from) {
  const auto known = [&](const FlatInitializer& i) {
    const std::string& name = model.name(i.symbol);
    return model.signature.from_nothing_else(name) || model.signature.looked_up(name) || model.signature.moved(name);
  };
  if (!known(copy) || all_alike(*copy.data)) return std::nullopt;
  for (const FlatInitializer& i : model.main.initializers) {
    if (i.symbol == copy.symbol) return std::nullopt;
    const std::vector<std::string>* other = model.signature.computed_from(model.name(i.symbol));
    if (!other || *other != from || !known(i) || !i.data || !is_float(i.type.dtype) || i.type.shape.elements() < copy.type.shape.elements())
      continue;
    if (std::optional<Tie> tie = moved(i.symbol, copy.symbol, *i.data, *copy.data)) return tie;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Tie> copy_of_parameter(const FlatModel& model, Symbol s) {
  const std::vector<std::string>* from = model.signature.computed_from(model.name(s));
  if (!from || from->size() != 1) return std::nullopt;
  const FlatInitializer *leader = find_initializer(model, from->front()), *copy = find_initializer(model, model.name(s));
  if (!copy || leader == copy || !copy->data || !is_float(copy->type.dtype)) return std::nullopt;  // of its shape there may be integers
  std::optional<Tie> tie;
  if (leader && leader->data) tie = moved(leader->symbol, s, *leader->data, *copy->data);
  if (!tie && leader && leader->data) tie = shifted(leader->symbol, s, *leader->data, *copy->data);
  if (!tie) tie = same_copy(model, *copy, *from);
  const bool placed = tie && (!tie->places.empty() || find_initializer(model, model.name(tie->leader))->type.shape != tie->shape);
  return placed && !tie->transposed && stands_for_samples(model, *copy->data) ? std::nullopt : tie;
}

Tensor followed(const Tie& tie, const Tensor& leader) {
  const Tensor source = tie.transposed ? transposed(leader) : leader;
  Tensor result(TensorType{leader.dtype(), tie.shape});
  const std::size_t size = size_of(leader.dtype());
  const std::span<std::byte> to = result.write();
  if (tie.places.empty()) std::copy_n(source.bytes().begin(), to.size(), to.begin());
  for (std::size_t i = 0; i < tie.places.size(); ++i)
    std::memcpy(to.data() + i * size, source.bytes().data() + static_cast<std::size_t>(tie.places[i]) * size, size);
  if (tie.scale == 1 && tie.offset == 0) return result;
  for (float& x : result.write<float>()) x = tie.offset + tie.scale * x;
  return result;
}

void tie_copies(FlatModel& model) {
  const auto tied = [&](Symbol s) {
    return std::any_of(model.ties.begin(), model.ties.end(), [&](const Tie& t) { return t.leader == s || t.follower == s; });
  };
  for (const FlatInitializer& i : model.main.initializers) {
    const std::optional<Tie> tie = copy_of_parameter(model, i.symbol);
    if (!tie || model.holding(tie->leader) != Holding::trained || tied(i.symbol) || follows(model, tie->leader)) continue;
    TemplateTensor& entry = model.tensors[static_cast<std::size_t>(model.held[static_cast<std::size_t>(i.symbol.index)])];
    const bool detached = model.signature.detached(entry.name);
    if (entry.holding != Holding::trained && entry.certain && !detached) continue;  // not what its values alone said
    model.ties.push_back(*tie);
    model.ties.back().detached = detached;
    entry.holding = Holding::trained;
    entry.certain = true;
    const std::string& leader = model.name(tie->leader);
    const bool copy = tie->scale == 1 && tie->offset == 0;
    if (!copy)
      entry.reason = concat("the file: ", tie->offset, tie->scale < 0 ? " - '" : " + '", leader, "', which it follows");
    else if (!tie->places.empty())
      entry.reason = concat("the file: values of '", leader, "', which it follows");
    else
      entry.reason = concat("the file: a copy of '", leader, tie->transposed ? "', transposed" : "'", ", which it follows",
                            detached ? " without a gradient" : "");
  }
}

}  // namespace tandem
