// `tandem cut`: a model that ends earlier, as a file.
#include "base/file.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// Its own option is called otherwise than that of the commands that cut on the way.
ModelFile read_cut(const std::string& path, const WeightOptions& options) {
  const OptionWords words([](std::string_view name) { return name == "cut" ? std::string_view("--at") : program_word(name); });
  return ModelFile::read(path, options);
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const std::string& path = a.positional("model");
  a.require("at");
  a.require("output");
  const std::string& output = a.text("output");
  check_writable_file(output);
  WeightOptions options;
  options.outputs = a.list("at");
  const ModelFile file = read_cut(path, options);
  for (const std::string& warning : file.graph({.batch = 1}).warnings)
    if (warning.starts_with("cut: ")) call.say(warning);
  file.write(output, {}, {.overwrite = a.on("overwrite")});
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
      .positionals = {"model"},
      .usage = "MODEL.onnx --at VALUES --output FILE.onnx",
      .examples = "  tandem cut trained.onnx --at flatten --output features.onnx\n",
      .options = {{"at", "VALUES", "", "names of values, or of nodes, of which the first output is meant; separated by commas"},
                  {"output", "FILE", "", "the ONNX file to write"},
                  {"overwrite", "", "off", "external data may replace any file of its name"}},
      .run = run,
  };
}

}  // namespace tandem
