// Tensors that share their values: those that a user ties, and those that a user should know of.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/option.h"
#include "importer/flat/call_parameters.h"
#include "importer/flat/operand_uses.h"
#include "importer/message/tensor_data.h"
#include "importer/message/value_tests.h"
#include "importer/weights/tie_weights.h"

namespace tandem {
namespace {

Shape reversed(const Shape& s) {
  return Shape(std::vector<std::int64_t>(s.dims.rbegin(), s.dims.rend()));
}

// What `look` says of the values, which then leave the memory: one weight after the other is there, not all together.
template <class Look>
bool seen(const Tensor& tensor, const Look& look) {
  const bool said = look(tensor);
  tensor.release();
  return said;
}

void warn_of_merged(FlatModel& model, const std::vector<Uses>& uses) {
  std::vector<std::string> names;
  std::int64_t values = 0;
  const std::set<int> shared = call_parameters(model).shared;  // by the module, not by the exporter
  for (const FlatInitializer& i : model.main.initializers) {
    if (shared.contains(i.symbol.index)) continue;
    const int readers = uses[static_cast<std::size_t>(i.symbol.index)].readers;
    if (model.holding(i.symbol) != Holding::trained || readers < 2 || !i.data || !seen(*i.data, all_alike)) continue;
    names.push_back(concat('\'', model.name(i.symbol), "' (", readers, " times)"));
    values += i.type.shape.elements();
  }
  if (names.empty()) return;
  model.warnings.push_back(concat("read by several nodes and trained as one, all values alike: ", listed(names), ", ", values,
                                  " values; exporters merge equal tensors: ", option("untie"), " '*' gives each reader its own"));
}

// The first and the last element stay where they are when a matrix is transposed.
std::string ends_of(const FlatInitializer& i) {
  std::vector<std::int64_t> dims = i.type.shape.dims;
  std::sort(dims.begin(), dims.end());
  std::string key;
  for (const std::int64_t d : dims) key += concat(d, ',');
  std::string end(size_of(i.type.dtype), '\0');
  for (const std::int64_t at : {std::int64_t{0}, i.data->byte_size() - std::ssize(end)}) {
    i.data->read(std::as_writable_bytes(std::span(end)), at);
    key += end;
  }
  return key;
}

// A weight by its role or by the file, not a table of a formula.
bool may_be_twin(const FlatModel& model, const FlatInitializer& i) {
  return model.holding(i.symbol) == Holding::trained &&
         model.tensors[static_cast<std::size_t>(model.held[static_cast<std::size_t>(i.symbol.index)])].certain && i.data &&
         i.type.shape.elements() > 1 && i.type.shape.rank() > 1;
}

// The file knows them for two parameters of the module.
bool are_two(const FlatModel& model, const FlatInitializer& a, const FlatInitializer& b) {
  const std::vector<std::string>&one = model.signature.stands_for(model.name(a.symbol)),
        &other = model.signature.stands_for(model.name(b.symbol));
  return !one.empty() && !other.empty() && one != other;
}

void warn_of_twins(FlatModel& model) {
  std::map<std::string, std::vector<const FlatInitializer*>> groups;
  for (const FlatInitializer& i : model.main.initializers)
    if (may_be_twin(model, i)) groups[ends_of(i)].push_back(&i);
  std::vector<std::string> pairs;
  for (const FlatInitializer& i : model.main.initializers) {
    if (!may_be_twin(model, i)) continue;
    const auto& group = groups[ends_of(i)];
    if (group.size() < 2 || group[0] == &i || follows(model, i.symbol) || are_two(model, *group[0], i)) continue;
    const Tensor& first = *group[0]->data;
    const bool twins = seen(*i.data, [&](const Tensor& t) {
      return !all_alike(t) && seen(first, [&](const Tensor& f) { return equal(f, t) || equal(transposed(f), t); });
    });
    if (twins) pairs.push_back(concat(model.name(group[0]->symbol), '=', model.name(i.symbol)));
  }
  if (pairs.empty()) return;
  model.warnings.push_back(concat("equal values that are trained apart: ", listed(pairs),
                                  "; exporters untie what a model shares: ", option("tie"), " A=B trains them as one"));
}

}  // namespace

const FlatInitializer* find_initializer(const FlatModel& model, std::string_view name) {
  for (const FlatInitializer& i : model.main.initializers)
    if (model.name(i.symbol) == name) return &i;
  return nullptr;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

std::string listed(const std::vector<std::string>& items) {
  constexpr std::size_t most = 4;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) s += concat(i ? ", " : "", items[i]);
  return items.size() > most ? concat(s, ", ... (", items.size(), " in all)") : s;
}

Tensor transposed(const Tensor& matrix) {
  if (matrix.shape().rank() != 2) return matrix;
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor result(TensorType{matrix.dtype(), Shape{columns, rows}});
  const std::size_t size = size_of(matrix.dtype());
  const auto from = matrix.bytes();
  const auto to = result.write();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r * columns + c) * size), size,
                  to.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(c * rows + r) * size));
  return result;
}

bool follows(const FlatModel& model, Symbol s) {
  return std::any_of(model.ties.begin(), model.ties.end(), [&](const Tie& t) { return t.follower == s; });
}

void tie_weights(FlatModel& model, const WeightOptions& options) {
  for (const auto& [a, b] : options.tie) {
    const auto refuse = [&, &a = a, &b = b](const auto&... why) { fail(ExitCode::usage, option("tie"), " '", a, '=', b, "': ", why...); };
    const FlatInitializer *leader = find_initializer(model, a), *follower = find_initializer(model, b);
    for (const auto& [name, found] : {std::pair(&a, leader), {&b, follower}})
      if (!found) refuse("the model has no initializer '", *name, "' that it uses");
    if (leader == follower) refuse("a tensor is tied to itself");
    if (model.holding(leader->symbol) != Holding::trained) refuse("'", a, "' is not trained");
    if (follows(model, leader->symbol) || follows(model, follower->symbol)) refuse("one of them follows another already");
    for (const Tie& tie : model.ties)
      if (tie.leader == follower->symbol) refuse("'", b, "' leads another: name the leader of all first");
    const Shape &s = leader->type.shape, &t = follower->type.shape;
    const bool same = s == t, turned = s.rank() == 2 && reversed(s) == t;
    if (leader->type.dtype != follower->type.dtype || (!same && !turned)) refuse("they are ", leader->type, " and ", follower->type);
    // A square one is transposed where its values say so.
    const bool both = leader->data && follower->data;
    const bool transpose =
        !same || (turned && both && !equal(*leader->data, *follower->data) && equal(transposed(*leader->data), *follower->data));
    model.ties.push_back({leader->symbol, follower->symbol, t, transpose});
    TemplateTensor& entry = model.tensors[static_cast<std::size_t>(model.held[static_cast<std::size_t>(follower->symbol.index)])];
    entry.holding = Holding::trained;
    entry.certain = true;
    entry.asked = true;
    entry.reason = concat(option("tie"), ": it follows '", a, transpose ? "', transposed" : "'");
    if (both && !equal(transpose ? transposed(*leader->data) : *leader->data, *follower->data))
      model.warnings.push_back(concat(option("tie"), ": '", b, "' starts with the values of '", a, "', which are not its own"));
  }
  tie_copies(model);
}

void warn_of_halves(FlatModel& model) {
  std::int64_t tensors = 0;
  DType dtype = DType::undefined;
  for (const TemplateTensor& t : model.tensors)
    if (is_half(t.type.dtype) && t.holding != Holding::constant) {
      ++tensors;
      dtype = t.type.dtype;
    }
  if (tensors > 0)
    model.warnings.push_back(concat("the file holds ", tensors, tensors == 1 ? " weight" : " weights", " in ", dtype,
                                    ": they are trained in float32 and written back in ", dtype, "; ", option("precision"),
                                    " says what steps compute in"));
}

void warn_of_equal_tensors(FlatModel& model) {
  warn_of_merged(model, uses_of(model));
  warn_of_twins(model);
}

}  // namespace tandem
