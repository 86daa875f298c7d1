#include "tests/cli/broken_run.h"

#include <algorithm>

#include "base/file.h"
#include "tests/importer/model_builder.h"
#include "trainer/checkpoint.h"

namespace tandem {
namespace {

bool is_time(std::string_view key) { return key == "seconds" || key == "samples_per_second" || key == "waiting_share"; }

Json without_times(const Json& json) {
  if (json.is_array()) {
    Json::Array list;
    for (const Json& entry : json.array()) list.push_back(without_times(entry));
    return list;
  }
  if (!json.is_object()) return json;
  Json::Object object;
  for (const auto& [key, value] : json.object())
    if (!is_time(key)) object.emplace_back(key, without_times(value));
  return object;
}

// The columns of times are the last two.
std::string without_times(const std::string& csv) {
  std::istringstream lines(csv);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    for (int column = 0; column < 2; ++column) line.resize(std::min(line.size(), line.rfind(',')));
    text += line + '\n';
  }
  return text;
}

std::string contents_if_any(const std::filesystem::path& file) { return std::filesystem::exists(file) ? read_file(file) : ""; }

}  // namespace

std::string contents_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return "none";
  const Checkpoint checkpoint = read_checkpoint(path);
  std::string text = without_times(checkpoint.state).dump();
  for (const auto* list : {&checkpoint.weights, &checkpoint.optimizer})
    for (const NamedTensor& t : *list) {
      const auto bytes = t.tensor.bytes();
      text += concat('\n', t.name, ' ', t.tensor.type(), ' ');
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  return text;
}

std::string values_of(const std::filesystem::path& path) try {
  if (!std::filesystem::exists(path)) return "none";
  const ModelFile model = ModelFile::read(path);
  const Graph graph = model.graph({.batch = 1});
  std::string text;
  for (const auto& [key, value] : model.metadata()) text += concat(key, ' ', value, '\n');
  for (const Value& v : graph.values)
    if (v.data) {
      text += concat(v.name, ' ', v.type, ' ');
      text.append(reinterpret_cast<const char*>(v.data->bytes().data()), v.data->bytes().size());
    }
  return text;
} catch (const Error& e) {
  return concat("unreadable: ", e.what());
}

BrokenRun::BrokenRun(const TemporaryFolder& all, const std::string& name, std::string options, bool external)
    : all_(all), folder_(all / name), name_(name), options_(std::move(options)), template_(external ? "external.onnx" : "tiny.onnx") {
  std::filesystem::create_directory(folder_);
  if (std::filesystem::exists(all / template_)) return;
  std::vector<float> weight(6 * 5);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 8;
  all.write("weight", {reinterpret_cast<const char*>(weight.data()), weight.size() * sizeof(float)});
  test::Model model;
  model.input("x", "N,2,3").output("y").add(test::filled_tensor("b", {5}));  // six numbers, or a grey image
  model.add(test::node("Flatten", {"x"}, {"f"})).add(test::node("Gemm", {"f", "w", "b"}, {"y"}));
  model.add(external ? test::external_tensor("w", {6, 5}, {{"location", "weight"}}) : test::float_tensor("w", {6, 5}, weight));
  all.write(template_, model.bytes());
}

Process BrokenRun::start(const std::map<std::string, std::string>& environment) const {
  std::string line = "train TMP/TEMPLATE --no-autotune --quiet --run-dir TMP/NAME/run --output TMP/NAME/out.onnx " + options_;
  for (const auto& [word, text] : {std::pair<std::string, std::string>{"TEMPLATE", template_}, {"NAME", name_}})
    for (std::size_t at; (at = line.find(word)) != std::string::npos;) line.replace(at, word.size(), text);
  if (options_.find("--overwrite") == std::string::npos) line += " --resume";
  std::map<std::string, std::string> all = environment;
  all.emplace("GOMP_SPINCOUNT", "2000");  // else the program starts itself once more with it
  return {all_, name_ + "-process" + all["TANDEM_RANK"], words(line, all_.text()), all};
}

Result BrokenRun::result() const {
  return {values_of(output()), contents_of(checkpoint()), contents_of(folder_ / "run/best.checkpoint"),
          without_times(contents_if_any(folder_ / "run/metrics.csv"))};
}

std::int64_t BrokenRun::step() const {
  if (!std::filesystem::exists(checkpoint())) return 0;
  const std::filesystem::path before = folder_ / "run/previous.checkpoint";
  try {
    return read_checkpoint(checkpoint()).state.at("step").integer();
  } catch (const Error&) {
    if (!std::filesystem::exists(before)) throw;
    return read_checkpoint(before).state.at("step").integer();
  }
}

std::vector<std::string> BrokenRun::leftovers() const {
  std::vector<std::string> list;
  std::set<std::string> parts;
  for (const char* name : {"last", "previous", "best"})
    if (const auto file = folder_ / "run" / concat(name, ".checkpoint"); std::filesystem::exists(file)) parts.merge(names_of_parts(file));
  int data = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    data += name.ends_with(".data");
    const bool unnamed = name.ends_with(".part") && !parts.contains(name);
    if (name.starts_with('.') || unnamed || (name.ends_with(".data") && data > 1)) list.push_back(entry.path().string());
  }
  return list;
}

}  // namespace tandem
