// Tries the sizes that the file's tensors have: a size is set where the graph has fewer problems with it than with any other.
#include "importer/build/sizes_by_weights.h"

#include <algorithm>
#include <set>

#include "importer/batch/bind_inputs.h"
#include "importer/flat/constant_nodes.h"

namespace tandem {
namespace {

constexpr std::size_t most_sizes = 64;                    // that are tried for one dimension
constexpr std::int64_t unlikely[] = {7, 13, 29, 53, 97};  // no size of a weight, most of them

std::set<std::int64_t> sizes_of_tensors(const FlatModel& model) {
  std::set<std::int64_t> sizes;
  const auto add = [&](const Shape& shape) { sizes.insert(shape.begin(), shape.end()); };
  for (const FlatInitializer& i : model.main.initializers) add(i.type.shape);
  for (const FlatNode& node : model.main.nodes)
    if (node.op == "Constant" && node.domain.empty() && node.faults.empty()) try {
        add(constant_value(node.attributes).shape());
      } catch (const Error&) {  // said when the graph is built
      }
  sizes.erase(0);
  return sizes;
}

}  // namespace

ImportOptions with_some_sizes(const FlatModel& model, ImportOptions options, const BatchReading& reading) {
  std::size_t next = 0;
  for (const std::string& name : dims_without_size(model.inputs, options, reading))
    options.dims[name] = unlikely[next++ % std::size(unlikely)];
  return options;
}

ImportOptions with_sizes_by_weights(const FlatModel& model, ImportOptions options, const BatchReading& reading, std::int64_t& work) {
  const std::vector<std::string> open = dims_without_size(model.inputs, options, reading);
  if (open.empty()) return options;
  const std::set<std::int64_t> sizes = sizes_of_tensors(model);
  const auto problems = [&](const ImportOptions& with) {
    constexpr std::int64_t samples = 11;
    const BuiltGraph built = build_graph(model, with, reading, reading.symbolic ? samples : reading.samples, nullptr, true);
    work -= std::ssize(model.main.nodes) + std::ssize(built.graph.nodes);
    return built.problems.size();
  };
  for (const std::string& name : open) {
    if (work < 0) break;
    ImportOptions with = with_some_sizes(model, options, reading);
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    int others = 0;
    for (const std::int64_t size : unlikely) {
      if (sizes.contains(size) || others == 2) continue;
      with.dims[name] = size;
      fewest = std::min(fewest, problems(with));
      ++others;
    }
    if (fewest == 0 || others == 0 || sizes.size() > most_sizes) continue;
    std::vector<std::int64_t> best;
    for (const std::int64_t size : sizes) {
      if (work < 0) return options;
      with.dims[name] = size;
      const std::size_t found = problems(with);
      if (found < fewest) best.clear();
      if (found < fewest || (found == fewest && !best.empty())) best.push_back(size);
      fewest = std::min(fewest, found);
    }
    if (best.size() == 1) options.dims[name] = best[0];
  }
  return options;
}

}  // namespace tandem
