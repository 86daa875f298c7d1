// A dimension's size is what the user gave for it, by the input's place or by its symbol, else what the file has.
#include "importer/batch/bind_inputs.h"

#include "base/option.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

// Of an input whose value is given that value tells the sizes, too.
std::int64_t size_by_value(const ImportOptions& options, const ModelInput& input, std::size_t axis) {
  const auto known = options.constants.find(input.name);
  const bool whole = known != options.constants.end() && known->second.shape().rank() == std::ssize(input.dims);
  return whole ? known->second.shape()[static_cast<int>(axis)] : -1;
}

class Binder {
 public:
  Binder(const ImportOptions& options, std::int64_t batch, std::vector<Problem>& problems)
      : options_(options), batch_(batch), problems_(problems) {}

  BoundInput bind(const ModelInput& input, int samples) {
    BoundInput bound{.type = {input.dtype, {}}, .axis = samples, .usable = true};
    if (size_of(input.dtype) == 0) problem(bound, input, "is no tensor of numbers");
    if (!input.shape_known) problem(bound, input, "has no shape");
    if (samples >= std::ssize(input.dims))
      problem(bound, input, concat("has ", input.dims.size(), " axes, its samples cannot lie along axis ", samples));
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis)
      bound.type.shape.dims.push_back(static_cast<int>(axis) == samples ? batch_ : size(bound, input, axis));
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

  std::int64_t size(BoundInput& bound, const ModelInput& input, std::size_t axis) {
    const std::int64_t* const given = given_size(options_, input, axis);
    if (given && *given < 0) problem(bound, input, concat("axis ", axis, " is given the size ", *given));
    if (given && (axis > 0 || input.dims[axis].size < 0)) return std::max<std::int64_t>(0, *given);
    if (input.dims[axis].size >= 0) return input.dims[axis].size;
    if (const std::int64_t known = size_by_value(options_, input, axis); known >= 0) return known;
    problem(bound, input, concat("axis ", axis, " has no size: give one by ", option("dims"), " ", size_name(input, axis), "=SIZE"));
    return 1;
  }

  const ImportOptions& options_;
  std::int64_t batch_;
  std::vector<Problem>& problems_;
};

}  // namespace

void check_dims(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::vector<Problem>& problems) {
  std::set<std::string> known, names;
  for (const ModelInput& input : inputs) {
    names.insert(input.name);
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      known.insert(concat(input.name, ':', axis));
      known.insert(input.dims[axis].symbol);
    }
  }
  for (const auto& [name, size] : options.dims)
    if (!known.contains(name))
      problems.push_back({.reason = concat("has no dimension '", name, "', for which the size ", size, " is given")});
  for (const auto& [name, axis] : options.batch_axes)
    if (!names.contains(name)) problems.push_back({.reason = concat("has no input '", name, "', for which the batch's axis is given")});
  for (const auto& [name, tensor] : options.constants)
    if (!names.contains(name)) problems.push_back({.reason = concat("has no input '", name, "', for which a value is given")});
}

BoundInput bind_input(const ModelInput& input, const ImportOptions& options, int axis, std::int64_t batch, std::vector<Problem>& problems) {
  return Binder(options, batch, problems).bind(input, axis);
}

std::vector<std::string> dims_without_size(const std::vector<ModelInput>& inputs, const ImportOptions& options,
                                           const BatchReading& reading) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t axis = 0; axis < inputs[i].dims.size(); ++axis) {
      const std::string name = size_name(inputs[i], axis);
      const bool sized = static_cast<int>(axis) == reading.axes[i] || inputs[i].dims[axis].size >= 0 ||
                         given_size(options, inputs[i], axis) || size_by_value(options, inputs[i], axis) >= 0;
      if (!sized && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  return names;
}

}  // namespace tandem
