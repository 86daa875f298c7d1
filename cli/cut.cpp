// `tandem cut`: a model that ends earlier, as a file.
#include "base/file.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "trainer/model.h"

namespace tandem {
namespace {

struct CutFlags : FlagGroup {
  Flag<std::vector<std::string>> at{*this, "at", "VALUES", "", "names of values, or of nodes, of which the first output is meant; separated by commas", {.field = "cut"}};
  Flag<std::string> output{*this, "output", "FILE", "", "the ONNX file to write", {.scope = FlagScope::place}};
  Switch overwrite{*this, "overwrite", off, "external data may replace any file of its name", {.scope = FlagScope::call}};
};
constexpr CutFlags cut_flags;

// Its own option is called otherwise than that of the commands that cut on the way.
ModelFile read_cut(const std::string& path, const WeightOptions& options) {
  const OptionWords words([](std::string_view name) {
    const std::string own = flag_of(cut_command(), name);
    return own.empty() ? program_word(name) : own;
  });
  return ModelFile::read(path, options);
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const std::string& path = a[model_file];
  a.require(cut_flags.at);
  a.require(cut_flags.output);
  const std::string output = a[cut_flags.output];
  check_writable_file(output);
  WeightOptions options;
  options.outputs = a[cut_flags.at];
  const ModelFile file = read_cut(path, options);
  for (const std::string& warning : file.graph({.batch = 1}).warnings)
    if (warning.starts_with("cut: ")) call.say(warning);
  file.write(output, {}, {.overwrite = a[cut_flags.overwrite]});
  if (call.json()) {
    Json::Array outputs;
    for (const std::string& name : file.outputs()) outputs.push_back(name);
    call.print(Json::Object{{"output", output}, {"outputs", std::move(outputs)}});
  } else {
    call.say(concat("wrote ", output));
  }
  return 0;
}

}  // namespace

Command cut_command() {
  return {
      .name = "cut",
      .help = "write a model that ends at values of your choice, such as its features",
      .positionals = {model_file},
      .usage = "MODEL.onnx --at VALUES --output FILE.onnx",
      .examples = "  tandem cut trained.onnx --at flatten --output features.onnx\n",
      .options = {&cut_flags},
      .run = run,
  };
}

}  // namespace tandem
