#include <algorithm>

#include "base/spec.h"
#include "cli/command.h"
#include "importer/build/report.h"
#include "options/device_flags.h"
#include "options/model_options.h"
#include "options/tune_options.h"
#include "options/weight_flags.h"
#include "trainer/template/input_options.h"
#include "trainer/template/summary_json.h"

namespace tandem {
namespace {

struct SummaryFlags : FlagGroup {
  Switch weights{*this, "weights", off, "list every float tensor of the file: trained or constant, and because of what"};
  Flag<std::vector<std::string>> dim{*this, "dim", "NAME=SIZE", "", "sizes of symbolic dimensions other than the batch, separated by commas", {.field = "dims"}};
  Flag<std::map<std::string, int>> batch_axis{*this, "batch-axis", "INPUT=AXIS", "", "the axis along which an input of the file holds its samples, or none, separated by commas", read_axes};
  Flag<std::map<std::string, Tensor>> set{*this, "set", "INPUT=VALUE", "", "an input's value, the same in every batch", read_constants};
  Flag<std::optional<std::int64_t>> max_loop_iterations{*this, "max-loop-iterations", "N", "", device_flags.max_loop_iterations.text};
};
constexpr SummaryFlags summary_flags;

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const Model model = Model::load(a[model_file], weight_options(a));
  SummaryOptions options{.dims = {}, .freeze = a[weight_flags.freeze], .unfreeze = a[weight_flags.unfreeze]};
  read_train_only(a, model, options.freeze, options.unfreeze);
  if (const auto iterations = a[summary_flags.max_loop_iterations]) options.max_loop_iterations = *iterations;
  options.batch_axes = a[summary_flags.batch_axis];
  options.constants = a[summary_flags.set];
  std::map<std::string, std::vector<std::int64_t>> buckets;
  read_dims(a, options.dims, buckets);
  for (const auto& [name, sizes] : buckets) options.dims[name] = *std::max_element(sizes.begin(), sizes.end());
  const Summary s = model.source().summary(options);
  for (const std::string& warning : s.warnings) call.say("warning: " + warning);
  if (!s.problems.empty()) call.say(concat("warning: ", report_of(a[model_file], s.problems)));
  if (!call.json()) {
    call.write(a[summary_flags.weights] ? text_of_tensors(s) : text_of(s));
    return 0;
  }
  call.print(json_of(s, model.file()));
  return 0;
}

}  // namespace

Command summary_command() {
  return {
      .name = "summary",
      .help = "show a model's nodes, shapes and parameters",
      .positionals = {model_file},
      .usage = "MODEL.onnx [options]",
      .examples =
          "  tandem summary models/lenet.onnx\n  tandem summary models/resnet50.onnx --weights\n  tandem summary models/resnet50.onnx "
          "--json\n",
      .options = {&summary_flags, &weight_flags, &tune_flags, &adapter_flags},
      .run = run,
  };
}

}  // namespace tandem
