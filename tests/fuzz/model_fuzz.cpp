// Any bytes as a model: imported, planned for training or inference, verified, and run for a step on the CPU, as
// `tandem train FILE --data random,samples=N --steps 1` does. How is taken from a hash of the bytes. What would keep the
// fuzzer long is left out: more than `most_nodes` nodes or `most_elements` elements in all values together, and models that fold
// more than `fold_limit` bytes.
#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/plan/plan_file.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/model.h"

namespace tandem {
namespace {

constexpr std::size_t most_nodes = 400;
constexpr std::int64_t most_elements = std::int64_t{1} << 18, fold_limit = std::int64_t{1} << 16, samples = 5;

bool is_small(const Graph& graph) {
  std::int64_t left = most_elements;
  for (const Value& v : graph.values) {
    std::int64_t elements = 0;
    for (std::int64_t n = 1; const std::int64_t d : v.type.shape)
      if (__builtin_mul_overflow(n, std::max<std::int64_t>(1, d), &n) || (elements = n) > left) return false;
    left -= elements;
  }
  return graph.nodes.size() <= most_nodes;
}

template <class T, std::size_t n>
T choose(std::uint64_t& from, const T (&list)[n]) {
  const T chosen = list[from % n];
  from /= n;
  return chosen;
}

void train(Model& model, std::int64_t own_batch, std::uint64_t way) {
  static const Backend* const backends[] = {&cpu_backend()};
  ModelOptions options{.init = "auto"};
  const std::int64_t batches[] = {own_batch, own_batch, 3};
  options.plan.batch = choose(way, batches);
  options.plan.mode = choose(way, {PlanMode::training, PlanMode::training, PlanMode::training, PlanMode::inference});
  options.plan.loss.name = choose(way, {"mse", "softmax-cross-entropy", "l1", "output", "binary-cross-entropy"});
  options.plan.precision = choose(way, {Precision::fp32, Precision::fp32, Precision::fp32, Precision::bf16});
  options.plan.optimizer = optimizer_defaults(choose(way, {"sgd", "sgd", "adamw", "rmsprop"}));
  options.plan.optimizer.momentum = 0.9;
  options.plan.devices = {{{"cpu", 0}}};
  if (way % 8 == 0) options.plan.devices.push_back({{"cpu", 0}, 0.5, 1});
  model.source().fit_placement(options);
  if (!is_small(
          model.file().graph({.batch = options.plan.batch, .training = options.plan.mode == PlanMode::training, .fold_limit = fold_limit})))
    return;
  model.source().check(options, backends);
  const Splits data = open_data(concat("random,samples=", samples), model.data_request(options));
  model.source().fit_labels(options, *data.train);
  const bool training = options.plan.mode == PlanMode::training;
  if (training) model.source().check_data(*data.train, options, {});
  model.compile(options, backends);
  if (training) {
    model.fit(*data.train, {.epochs = 0, .steps = 1, .learning_rate = 0.01});
    const std::filesystem::path saved = fuzz::folder() / "saved.onnx";
    model.save(saved, true, {.overwrite = true});
    ModelFile::read(saved);  // what was written can be read
  } else {
    model.predict(*data.train);
  }
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> names{"", "ai.onnx", "tandem", "N", "axis", "axes", "pads", "group", "to", "value", "perm", "shape"};
    for (const Operator& op : operators()) names.emplace_back(op.name);
    return names;
  }();
  return list;
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    const std::string bytes = fuzz::text_of(data, size);
    ModelFile file = ModelFile::parse(bytes, {});
    for (const std::int64_t batch : {0, 3}) {
      const ImportOptions import{.batch = batch, .fold_limit = fold_limit};
      if (!file.problems(import).empty()) continue;
      const Graph graph = file.graph(import);
      verify(graph);
      onnx_of(graph);
    }
    std::int64_t own_batch = 3;
    for (const ModelInput& input : file.inputs())
      if (!input.dims.empty() && input.dims[0].size > 0 && input.dims[0].size <= 8) own_batch = input.dims[0].size;
    Model model(std::move(file));
    model.source().summary();
    train(model, own_batch, std::hash<std::string>()(bytes));
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string model = fuzz::text_of(data, size);
  fuzz::mutate_message(model, model, words(), random);
  return fuzz::give(model, data, room);
}

// Pieces of another model of the corpus, where they fit.
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data, std::size_t size, const std::uint8_t* other,
                                                 std::size_t other_size, std::uint8_t* out, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string model = fuzz::text_of(data, size);
  fuzz::mutate_message(model, fuzz::text_of(other, other_size), words(), random);
  return fuzz::give(model, out, room);
}
