#include "trainer/feed/preprocess.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option.h"
#include "base/spec.h"
#include "data/iterable.h"

namespace tandem {
namespace {

constexpr int default_crop = 4;
constexpr double default_mixup = 0.2, default_cutmix = 1, most_alpha = 100;  // as torchvision trains

int parse_crop(const std::string& text) {
  constexpr std::int64_t most = 1024;
  const std::int64_t pixels = parse_integer(text, "augment: crop");
  if (pixels < 0 || pixels > most) fail(ExitCode::usage, "augment: crop=", pixels, ", expected 0 to ", most, " pixels");
  return static_cast<int>(pixels);
}

// "AMOUNT" or "TIMESxAMOUNT".
Augmentation parse_step(const AugmentationRow& row, const std::string& part, const std::string& text) {
  constexpr std::int64_t most_times = 20;
  Augmentation step{row.name, row.absent, row.times};
  const std::string where = concat("augment: ", row.name);
  const std::size_t x = text.find('x');
  if (x != std::string::npos) step.times = parse_integer(text.substr(0, x), where);
  if (!text.empty()) step.amount = parse_number(x == std::string::npos ? text : text.substr(x + 1), where);
  if (!(step.amount >= row.low && step.amount <= row.high))
    fail(ExitCode::usage, "augment: ", part, ", expected ", row.low, " to ", row.high, " (", row.help, ')');
  if (step.times < 1 || step.times > most_times) fail(ExitCode::usage, "augment: ", part, ", expected 1 to ", most_times, " times");
  return step;
}

}  // namespace

std::string text_of_normalize(const Preprocess& p) {
  std::string text;
  for (const std::vector<double>* list : {&p.mean, &p.deviation})
    for (const double v : *list) text += fmt::format("{}{}", text.empty() ? "" : ",", v);  // the shortest that reads back alike
  return text.empty() ? "none" : text;
}

void parse_normalize(Preprocess& p, std::string_view text) {
  p.mean.clear();
  p.deviation.clear();
  p.measure = text == "auto";
  if (text == "none" || p.measure) return;
  if (text == "imagenet") text = "0.485,0.456,0.406,0.229,0.224,0.225";
  std::vector<double> values;
  for (const std::string& part : split(text, ',')) values.push_back(parse_number(part, "normalize"));
  if (values.empty() || values.size() % 2 != 0)
    fail(ExitCode::usage, "normalize '", text, "': expected MEAN,DEVIATION, or the means of all channels and then their deviations");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  p.mean.assign(values.begin(), middle);
  p.deviation.assign(middle, values.end());
  for (const double d : p.deviation)
    if (!(d > 0)) fail(ExitCode::usage, "normalize '", text, "': a deviation of ", d, ", expected a positive number");
}

void parse_augment(Preprocess& p, std::string_view text) {
  std::vector<std::string> names{"crop", "flip", "mixup", "cutmix"};
  for (const Recipe& recipe : augmentation_recipes()) names.emplace_back(recipe.name);
  for (const AugmentationRow& row : augmentations()) names.emplace_back(row.name);
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const bool given = equals != std::string::npos;
    const std::string name = part.substr(0, equals), amount = given ? part.substr(equals + 1) : "";
    const auto row = std::ranges::find(augmentations(), name, &AugmentationRow::name);
    const auto recipe = std::ranges::find(augmentation_recipes(), name, &Recipe::name);
    if (name == "flip" && !given) {
      p.flip = true;
    } else if (name == "crop") {
      p.random_box = !given;
      p.crop = given ? parse_crop(amount) : default_crop;
    } else if (name == "mixup" || name == "cutmix") {
      double& alpha = name == "mixup" ? p.mixup : p.cutmix;
      alpha = given ? parse_number(amount, concat("augment: ", name)) : name == "mixup" ? default_mixup : default_cutmix;
      if (!(alpha > 0 && alpha <= most_alpha))
        fail(ExitCode::usage, "augment: ", part, ", expected the alpha of Beta(alpha, alpha), above 0, at most ", most_alpha);
    } else if (recipe != augmentation_recipes().end() && !given) {
      parse_augment(p, recipe->steps);
    } else if (row != augmentations().end()) {
      p.recipe.push_back(parse_step(*row, part, amount));
    } else {
      fail(ExitCode::usage, "unknown augmentation '", part, "'", suggestion(name, names));
    }
  }
}

std::string text_of_augment(const Preprocess& p) {
  std::string text;
  const auto add = [&](std::string_view step) { text += concat(text.empty() ? "" : ",", step); };
  if (p.random_box)
    add("crop");
  else if (p.crop > 0)
    add(concat("crop=", p.crop));
  if (p.flip) add("flip");
  for (const Augmentation& step : p.recipe) {
    const auto row = std::ranges::find(augmentations(), step.name, &AugmentationRow::name);
    const bool times = row == augmentations().end() ? step.times != 1 : step.times != row->times;
    add(fmt::format("{}={}{}", step.name, times ? fmt::format("{}x", step.times) : "", step.amount));
  }
  if (p.mixup > 0) add(fmt::format("mixup={}", p.mixup));
  if (p.cutmix > 0) add(fmt::format("cutmix={}", p.cutmix));
  return text;
}

std::span<const Recipe> augmentation_recipes() {
  static constexpr Recipe rows[] = {
      {"imagenet", "crop,flip"},
      {"cifar", "crop=4,flip"},
      {"torchvision", "crop,flip,trivial,erase=0.1,mixup=0.2,cutmix=1"},
  };
  return rows;
}

std::int64_t measure_normalize(Preprocess& p, const Dataset& data, const DataRequest& request) {
  constexpr std::int64_t most = 2000, chunk = 50;
  need_all_samples(data, concat(option("normalize"), " auto"));
  const auto input = std::ranges::find_if(request.inputs,
                                          [](const Field& f) { return f.sample.dtype == DType::float32 && f.sample.shape.elements() > 0; });
  if (input == request.inputs.end()) fail(ExitCode::data, "normalize auto: the model has no input of float32 to measure");
  Preprocess plain = p;
  plain.mean.clear();
  plain.deviation.clear();
  Feed feed(data, {{.name = input->name, .sample = input->sample}}, plain, request.seed);
  const Shape& s = input->sample.shape;
  const auto colours = [](std::int64_t n) { return n == 1 || n == 3; };
  const bool first = s.rank() == 3 && colours(s[0]), last = !first && s.rank() == 3 && colours(s[2]);
  const std::int64_t channels = first ? s[0] : last ? s[2] : 1, elements = s.elements(), run = first ? s[1] * s[2] : 1;
  std::vector<double> sum(static_cast<std::size_t>(channels)), squares(sum.size());
  const std::int64_t samples = std::min(most, data.size());
  std::vector<float> values;
  for (std::int64_t begin = 0; begin < samples; begin += chunk) {
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = begin; i < std::min(samples, begin + chunk); ++i)
      chosen.push_back(data.size() / samples * i + data.size() % samples * i / samples);  // the product may not fit
    values.resize(chosen.size() * static_cast<std::size_t>(elements));
    std::byte* to[] = {reinterpret_cast<std::byte*>(values.data())};
    feed.fill(chosen, 0, false, to);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / run % channels);
      sum[c] += values[i];
      squares[c] += static_cast<double>(values[i]) * values[i];
    }
  }
  const double count = static_cast<double>(samples) * static_cast<double>(elements / channels);
  p.mean.clear();
  p.deviation.clear();
  for (std::size_t c = 0; c < sum.size(); ++c) {
    constexpr double digits = 1e6;  // more would be noise in a line that people read
    const double mean = sum[c] / count, deviation = std::sqrt(std::max(0.0, squares[c] / count - mean * mean));
    if (!std::isfinite(mean) || !(deviation > 0))
      fail(ExitCode::data, "normalize auto: ", data.name(), ": '", input->name, "' is the same everywhere, or no numbers");
    const bool rounds = std::abs(mean) < digits && deviation > 10 / digits;
    p.mean.push_back(rounds ? std::round(mean * digits) / digits : mean);
    p.deviation.push_back(rounds ? std::round(deviation * digits) / digits : deviation);
  }
  p.measure = false;
  return samples;
}

}  // namespace tandem
