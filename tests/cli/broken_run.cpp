#include "tests/cli/broken_run.h"

#include <algorithm>

#include "tests/importer/model_builder.h"
#include "trainer/file.h"
#include "trainer/checkpoint.h"

namespace tandem {
namespace {

bool is_time(std::string_view key) { return key == "seconds" || key == "samples_per_second"; }

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

BrokenRun::BrokenRun(const TemporaryFolder& all, const std::string& name, std::string options)
    : all_(all), folder_(all / name), name_(name), options_(std::move(options)) {
  std::filesystem::create_directory(folder_);
  if (std::filesystem::exists(all / "tiny.onnx")) return;
  test::Model model;
  std::vector<float> weight(6 * 5);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 8;
  model.input("x", "N,6").add(test::float_tensor("w", {6, 5}, weight)).add(test::filled_tensor("b", {5})).add(test::node("Gemm", {"x", "w", "b"}, {"y"})).output("y");
  all.write("tiny.onnx", model.bytes());
}

Process BrokenRun::start(const std::map<std::string, std::string>& environment) const {
  std::string line = "train TMP/tiny.onnx --no-autotune --quiet --run-dir TMP/NAME/run --output TMP/NAME/out.onnx " + options_;
  for (std::size_t at; (at = line.find("NAME")) != std::string::npos;) line.replace(at, 4, name_);
  if (std::filesystem::exists(checkpoint()) && options_.find("--overwrite") == std::string::npos) line += " --resume";
  return {all_, name_ + "-process", words(line, all_.text()), environment};
}

Result BrokenRun::result() const {
  return {contents_if_any(output()), contents_of(checkpoint()), contents_of(folder_ / "run/best.checkpoint"),
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

std::vector<std::string> BrokenRun::temporaries() const {
  std::vector<std::string> list;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    if (entry.path().filename().string().find(".tandem-") != std::string::npos) list.push_back(entry.path().string());
  return list;
}

}  // namespace tandem
