// A dimension's size is what the user gave for it, by the input's place or by its symbol, else what the file has. Axis 0 is taken for
// the batch where it is symbolic, or as long as the first input's; where that is no more than likely, the user is told.
#include "importer/bind_inputs.h"

#include "graph/option.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

// Names that exporters give to dimensions they know nothing about: two of them need not be equal.
bool anonymous(const std::string& symbol) {
  return symbol.empty() || symbol == "?" || symbol == "None" || symbol.starts_with("unk_");
}

// The name of the batch dimension: the first symbol on an axis 0.
std::string batch_symbol(const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs)
    if (!input.dims.empty() && input.dims[0].size < 0 && !anonymous(input.dims[0].symbol)) return input.dims[0].symbol;
  return "";
}

class Binder {
 public:
  Binder(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::int64_t batch, std::vector<Problem>& problems)
      : inputs_(inputs),
        options_(options),
        batch_(batch),
        problems_(problems),
        batch_symbol_(batch_symbol(inputs)),
        file_batch_(batch_of_file(inputs)) {}

  BoundInput bind(const ModelInput& input) {
    BoundInput bound{.type = {input.dtype, {}}, .usable = true};
    if (size_of(input.dtype) == 0) problem(bound, input, "is no tensor of numbers");
    if (!input.shape_known) problem(bound, input, "has no shape");
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) bound.type.shape.dims.push_back(size(bound, input, axis));
    try {
      if (bound.usable && bound.type.shape.elements() > (std::int64_t{1} << 58))
        problem(bound, input, concat("has a shape beyond all memory: ", bound.type.shape));
    } catch (const Error& error) {
      problem(bound, input, error.what());
    }
    return bound;
  }

 private:
  void problem(BoundInput& bound, const ModelInput& input, const std::string& reason) {
    bound.usable = false;
    problems_.push_back({.reason = concat("input '", input.name, "' ", reason)});
  }

  // What the caller gave for this dimension, by place or by symbol; -1: nothing.
  std::int64_t given(BoundInput& bound, const ModelInput& input, std::size_t axis) {
    auto it = options_.dims.find(concat(input.name, ':', axis));
    if (it == options_.dims.end() && !input.dims[axis].symbol.empty()) it = options_.dims.find(input.dims[axis].symbol);
    if (it == options_.dims.end()) return -1;
    if (it->second < 0) problem(bound, input, concat("axis ", axis, " is given the size ", it->second));
    return it->second;
  }

  std::int64_t size(BoundInput& bound, const ModelInput& input, std::size_t axis) {
    const ModelDim& dim = input.dims[axis];
    const std::int64_t asked = given(bound, input, axis);
    if (asked >= 0 && (axis > 0 || dim.size < 0)) return asked;
    if (axis == 0 && ((dim.size < 0 && !is_another(dim)) || (dim.size == file_batch_ && !batch_elsewhere(input)))) {
      bound.batched = true;
      if (dim.size < 0 && !anonymous(dim.symbol) && dim.symbol != batch_symbol_)
        bound.assumed = concat("input '", input.name, "': its axis 0, '", dim.symbol, "', is taken for the batch '", batch_symbol_,
                               "'; a size for it (", option("dims"), " ", dim.symbol, "=SIZE) says otherwise");
      return batch_;
    }
    if (dim.size >= 0) return dim.size;
    if (!anonymous(dim.symbol) && (dim.symbol == batch_symbol_ || dim.symbol.starts_with("batch"))) {
      problem(bound, input, concat("has its batch '", dim.symbol, "' on axis ", axis, ", only axis 0 is supported"));
      return 1;
    }
    const std::string place = concat(input.name, ':', axis);
    problem(bound, input, concat("axis ", axis, " has no size: give one by ", option("dims"), " ", anonymous(dim.symbol) ? place : dim.symbol, "=SIZE"));
    return 1;
  }

  // A symbol other than the batch's that also stands on a later axis: [batch, nodes] beside [nodes, nodes].
  bool is_another(const ModelDim& dim) const {
    if (anonymous(dim.symbol) || dim.symbol == batch_symbol_) return false;
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const ModelInput& input) {
      return std::any_of(input.dims.begin() + std::min<std::ptrdiff_t>(1, std::ssize(input.dims)), input.dims.end(),
                         [&](const ModelDim& d) { return d.size < 0 && d.symbol == dim.symbol; });
    });
  }

  bool batch_elsewhere(const ModelInput& input) const {
    return !batch_symbol_.empty() && std::any_of(input.dims.begin() + 1, input.dims.end(),
                                                 [&](const ModelDim& d) { return d.size < 0 && d.symbol == batch_symbol_; });
  }

  const std::vector<ModelInput>& inputs_;
  const ImportOptions& options_;
  std::int64_t batch_;
  std::vector<Problem>& problems_;
  std::string batch_symbol_;
  std::int64_t file_batch_;
};

}  // namespace

std::int64_t batch_of_file(const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs)
    if (!input.dims.empty()) return input.dims[0].size > 0 ? input.dims[0].size : 1;
  return 1;
}

bool batch_is_symbolic(const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs)
    if (!input.dims.empty()) return input.dims[0].size <= 0;
  return false;
}

void check_dims(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::vector<Problem>& problems) {
  std::set<std::string> known;
  for (const ModelInput& input : inputs)
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      known.insert(concat(input.name, ':', axis));
      known.insert(input.dims[axis].symbol);
    }
  for (const auto& [name, size] : options.dims)
    if (!known.contains(name))
      problems.push_back({.reason = concat("has no dimension '", name, "', for which the size ", size, " is given")});
}

std::vector<BoundInput> bind_inputs(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::int64_t batch,
                                    std::vector<Problem>& problems) {
  Binder binder(inputs, options, batch, problems);
  std::vector<BoundInput> bound;
  for (const ModelInput& input : inputs) bound.push_back(binder.bind(input));
  return bound;
}

}  // namespace tandem
