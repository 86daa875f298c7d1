#include "trainer/preprocess.h"

#include <algorithm>

namespace tandem {

std::int64_t measure_normalize(Preprocess& p, const Dataset& data, const DataRequest& request) {
  constexpr std::int64_t most = 2000, chunk = 50;
  const auto input = std::ranges::find_if(request.inputs, [](const Field& f) { return f.sample.dtype == DType::float32 && f.sample.shape.elements() > 0; });
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
    for (std::int64_t i = begin; i < std::min(samples, begin + chunk); ++i) chosen.push_back(i * data.size() / samples);
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
    if (!std::isfinite(mean) || !(deviation > 0)) fail(ExitCode::data, "normalize auto: ", data.name(), ": '", input->name, "' is the same everywhere, or no numbers");
    const bool rounds = std::abs(mean) < digits && deviation > 10 / digits;
    p.mean.push_back(rounds ? std::round(mean * digits) / digits : mean);
    p.deviation.push_back(rounds ? std::round(deviation * digits) / digits : deviation);
  }
  p.measure = false;
  return samples;
}

}  // namespace tandem
