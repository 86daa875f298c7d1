#include "cli/command.h"
#include "cli/model_options.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const Model model = Model::load(a.positional("model"));
  std::map<std::string, std::int64_t> dims;
  for (const std::string& dim : a.list("dim")) {
    const std::size_t equals = dim.rfind('=');
    if (equals == std::string::npos) fail(ExitCode::usage, "--dim ", dim, ": expected NAME=SIZE");
    dims[dim.substr(0, equals)] = parse_integer(dim.substr(equals + 1), concat("--dim ", dim.substr(0, equals)));
  }
  const Summary s = model.summary(dims);
  if (!call.json()) {
    call.write(text_of(s));
    return 0;
  }
  Json::Array rows;
  for (const SummaryRow& r : s.rows)
    rows.push_back(
        Json::Object{{"node", r.node}, {"op", r.op}, {"output", to_string(r.output)}, {"parameters", r.parameters}, {"flops", r.flops}});
  call.print(Json::Object{{"model", s.model},
                          {"opset", model.file().opset()},
                          {"ir_version", model.file().ir_version()},
                          {"producer", model.file().producer()},
                          {"parameters", s.parameters},
                          {"trainable", s.trainable},
                          {"bytes", s.bytes},
                          {"flops", s.flops},
                          {"nodes", std::move(rows)}});
  return 0;
}

}  // namespace

Command summary_command() {
  return {
      .name = "summary",
      .help = "show a model's nodes, shapes and parameters",
      .positionals = {"model"},
      .usage = "MODEL.onnx [options]",
      .examples = "  tandem summary models/lenet.onnx\n  tandem summary models/resnet50.onnx --json\n",
      .options = {{"dim", "NAME=SIZE", "", "sizes of symbolic dimensions other than the batch, separated by commas"}},
      .run = run,
  };
}

}  // namespace tandem
