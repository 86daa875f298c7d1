#include "trainer/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trainer/random.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

constexpr int default_crop = 4;

Shape without_ones(const Shape& s) {
  Shape out;
  for (const std::int64_t d : s)
    if (d != 1) out.dims.push_back(d);
  return out;
}

int parse_crop(const std::string& text) {
  constexpr std::int64_t most = 1024;
  const std::int64_t pixels = parse_integer(text, "augment: crop");
  if (pixels < 0 || pixels > most) fail(ExitCode::usage, "augment: crop=", pixels, ", expected 0 to ", most, " pixels");
  return static_cast<int>(pixels);
}

// What numbers of a type may be that become a target's: such as it can hold, and those that its loss has a meaning for.
Allowed allowed_in(const FeedTarget& target, DType have, std::string_view loss) {
  const DType want = target.sample.dtype;
  Allowed a;
  if (want == DType::boolean || have == DType::boolean) return a;
  visit_number(want, [&]<class T>() {
    if (have == want && !is_float(want)) return;
    if (is_float(want) && !is_float(have)) return;
    a = {static_cast<double>(std::numeric_limits<T>::lowest()), static_cast<double>(std::numeric_limits<T>::max()), !is_float(want)};
    if (std::numeric_limits<T>::digits > std::numeric_limits<double>::digits) a.high = std::nextafter(a.high, 0);  // which rounds it up
  });
  if (target.label && loss == "binary-cross-entropy") {
    a.low = 0;
    a.high = 1;
  }
  if (target.label && loss == "softmax-cross-entropy") a.low = 0;
  return a;
}

}  // namespace

std::string text_of_normalize(const Preprocess& p) {
  std::string text;
  for (const std::vector<double>* list : {&p.mean, &p.deviation})
    for (const double v : *list) text += fmt::format("{}{}", text.empty() ? "" : ",", v);  // the shortest that reads back alike
  return text.empty() ? "none" : text;
}

void parse_normalize(Preprocess& p, std::string_view text) {
  if (text == "none") {
    p.mean.clear();
    p.deviation.clear();
    return;
  }
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
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (name == "flip" && equals == std::string::npos)
      p.flip = true;
    else if (name == "crop")
      p.crop = equals == std::string::npos ? default_crop : parse_crop(part.substr(equals + 1));
    else
      fail(ExitCode::usage, "unknown augmentation '", part, "'", suggestion(name, std::vector<std::string>{"crop", "flip"}));
  }
}

Feed::Feed(const Dataset& data, std::vector<FeedTarget> targets, Preprocess preprocess, std::uint64_t seed)
    : data_(data), targets_(std::move(targets)), preprocess_(std::move(preprocess)), seed_(seed) {
  const auto fields = data.fields();
  std::vector<int> chosen(targets_.size(), -1);
  std::vector<bool> used(fields.size());
  const auto choose = [&](std::size_t target, auto&& fits) {
    for (std::size_t f = 0; f < fields.size() && chosen[target] < 0; ++f)
      if (!used[f] && fits(fields[f])) {
        chosen[target] = static_cast<int>(f);
        used[f] = true;
      }
  };
  // By name first; then labels take the label field, then what is left goes together in order, inputs before labels
  // (a model that computes its own loss takes labels as an input).
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (targets_[t].label)
      choose(t, [](const Field& f) { return f.role == Role::label; });
    else
      choose(t, [&](const Field& f) { return f.name == targets_[t].name; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field& f) { return f.role == Role::input; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field&) { return true; });
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (chosen[t] < 0 && !targets_[t].label)
      fail(ExitCode::data, data.name(), " has nothing for the model's input '", targets_[t].name, "' ", targets_[t].sample, "; it has ",
           names_of(fields));
    sources_.push_back(chosen[t] < 0 ? Source{} : match(targets_[t], chosen[t]));
  }
}

Feed::Source Feed::match(const FeedTarget& target, int index) const {
  const Field& field = data_.fields()[static_cast<std::size_t>(index)];
  const Shape& have = field.sample.shape;
  const Shape& want = target.sample.shape;
  Source s;
  s.field = index;
  s.w = have.elements();
  const auto mismatch = [&]() {
    fail(ExitCode::data, data_.name(), ": samples of '", field.name, "' are ", field.sample, ", the model's ",
         target.label ? "labels take " : concat("input '", target.name, "' takes "), target.sample, " per sample");
  };
  const auto no_integers = [&]() {
    fail(ExitCode::data, data_.name(), ": '", field.name, "' is ", field.sample, " per sample, ",
         target.label ? "the loss takes class indices" : concat("the model's input '", target.name, "' takes ", target.sample.dtype),
         ", which are integers: store them as int64");
  };
  if (target.label && is_float(target.sample.dtype) && have.elements() == 1 && want.elements() > 1) {
    if (is_float(field.sample.dtype)) no_integers();
    s.one_hot = true;
    return s;
  }
  if (!is_float(target.sample.dtype) && is_float(field.sample.dtype)) no_integers();
  if (have.elements() != want.elements()) mismatch();

  // Two orders of axes can be told apart: as the field has them, or with the channels moved.
  const bool first = field.axes == Axes::channels_first, last = field.axes == Axes::channels_last;
  const bool image = have.rank() == 3 && (first || last);
  enum { same, to_last, to_first } move = same;
  if (have.rank() == 3 && want.rank() == 3 && have != want) {
    const Shape moved_last{have[1], have[2], have[0]}, moved_first{have[2], have[0], have[1]};
    if (!last && moved_last == want)
      move = to_last;
    else if (!first && moved_first == want)
      move = to_first;
  }
  if (move == same && have != want && want.rank() != 1 && have.rank() != 1 && without_ones(have) != without_ones(want)) mismatch();
  if (image || move != same) {
    const bool from_first = move == same ? first : move == to_last;
    const bool to_channels_first = move == same ? from_first : move == to_first;
    s.image = true;
    s.c = have[from_first ? 0 : 2];
    s.h = have[from_first ? 1 : 0];
    s.w = have[from_first ? 2 : 1];
    const auto strides = [&](std::int64_t* out, bool channels_first) {
      out[0] = channels_first ? s.h * s.w : 1;
      out[1] = channels_first ? s.w : s.w * s.c;
      out[2] = channels_first ? 1 : s.c;
    };
    strides(s.from, from_first);
    strides(s.to, to_channels_first);
  }
  if (!target.label) set_scale(s, target, field);
  return s;
}

void Feed::set_scale(Source& s, const FeedTarget& target, const Field& field) const {
  const double unit = field.pixels && is_float(target.sample.dtype) ? 1.0 / 255 : 1.0;
  const std::size_t given = preprocess_.mean.size();
  if (given > 1 && static_cast<std::int64_t>(given) != s.c)
    fail(ExitCode::usage, "normalize: ", given, " means for '", field.name, "' of ", data_.name(), ", which has ", s.c,
         s.c == 1 ? " channel" : " channels");
  if (given == 0 && unit == 1.0) return;
  if (given > 0 && !is_float(target.sample.dtype)) return;
  for (std::int64_t c = 0; c < s.c; ++c) {
    const std::size_t i = given > 1 ? static_cast<std::size_t>(c) : 0;
    const double mean = given ? preprocess_.mean[i] : 0, deviation = given ? preprocess_.deviation[i] : 1;
    s.scale.push_back(unit / deviation);
    s.shift.push_back(-mean / deviation);
  }
}

template <class From, class To>
void Feed::convert(const Source& s, const From* from, To* to, std::int64_t dy, std::int64_t dx, bool mirror) const {
  for (std::int64_t c = 0; c < s.c; ++c) {
    const bool scaled = !s.scale.empty();
    const auto scale = static_cast<float>(scaled ? s.scale[static_cast<std::size_t>(c)] : 1);
    const auto shift = static_cast<float>(scaled ? s.shift[static_cast<std::size_t>(c)] : 0);
    const auto value = [&](From v) { return scaled ? static_cast<To>(static_cast<float>(v) * scale + shift) : static_cast<To>(v); };
    for (std::int64_t y = 0; y < s.h; ++y) {
      To* row = to + c * s.to[0] + y * s.to[1];
      const std::int64_t from_y = y + dy;
      const From* line = from + c * s.from[0] + from_y * s.from[1];
      if (from_y < 0 || from_y >= s.h) {
        for (std::int64_t x = 0; x < s.w; ++x) row[x * s.to[2]] = value(From{});
      } else if (dx == 0 && !mirror && s.from[2] == 1 && s.to[2] == 1) {
        for (std::int64_t x = 0; x < s.w; ++x) row[x] = value(line[x]);
      } else {
        for (std::int64_t x = 0; x < s.w; ++x) {
          const std::int64_t from_x = (mirror ? s.w - 1 - x : x) + dx;
          row[x * s.to[2]] = value(from_x < 0 || from_x >= s.w ? From{} : line[from_x * s.from[2]]);
        }
      }
    }
  }
}

void Feed::fill(std::span<const std::int64_t> batch, RowRange inputs, std::int64_t epoch, bool augment, std::span<std::byte* const> to) {
  const bool moving = augment && (preprocess_.crop > 0 || preprocess_.flip);
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const Source& s = sources_[t];
    if (s.field < 0 || !to[t]) continue;
    const TensorType &have = data_.fields()[static_cast<std::size_t>(s.field)].sample, &want = targets_[t].sample;
    const RowRange rows = targets_[t].label ? RowRange{0, std::ssize(batch)} : inputs;
    const auto samples = batch.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
    std::byte* const target = to[t] + rows.first * want.shape.elements() * static_cast<std::int64_t>(size_of(want.dtype));
    const bool copies = have.dtype == want.dtype && !s.image && !s.one_hot && s.scale.empty();
    if (copies) {
      data_.read(static_cast<std::size_t>(s.field), samples, target);
      continue;
    }
    const auto have_elements = have.shape.elements(), want_elements = want.shape.elements();
    const std::size_t bytes = samples.size() * static_cast<std::size_t>(have_elements) * size_of(have.dtype);
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    data_.read(static_cast<std::size_t>(s.field), samples, scratch_.data());
    visit_number(have.dtype, [&]<class From>() {
      visit_number(want.dtype, [&]<class To>() {
        const From* from = reinterpret_cast<const From*>(scratch_.data());
        To* out = reinterpret_cast<To*>(target);
        for (const std::int64_t sample : samples) {
          if (s.one_hot) {
            std::fill_n(out, want_elements, To{});
            const auto label = static_cast<std::int64_t>(*from);
            if (label >= 0 && label < want_elements) out[label] = To{1};
          } else {
            std::int64_t dy = 0, dx = 0;
            bool mirror = false;
            if (moving && s.image) {
              Random random(seed_, stream_of(concat("augment/", epoch, '/', sample)));
              dy = random.below(2 * preprocess_.crop + 1) - preprocess_.crop;
              dx = random.below(2 * preprocess_.crop + 1) - preprocess_.crop;
              mirror = preprocess_.flip && random.below(2) == 1;
            }
            convert(s, from, out, dy, dx, mirror);
          }
          from += have_elements;
          out += want_elements;
        }
      });
    });
  }
}

void Feed::check_values(std::string_view loss) {
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!has(t)) fail(ExitCode::data, data_.name(), " has no labels for the loss '", loss, "'; it has ", names_of(data_.fields()));
    check_values(t, loss);
  }
}

void Feed::check_values(std::size_t t, std::string_view loss) {
  const Source& s = sources_[t];
  const FeedTarget& target = targets_[t];
  const Field& field = data_.fields()[static_cast<std::size_t>(s.field)];
  const bool dense = target.label && is_float(target.sample.dtype) && !s.one_hot;
  const IndexRange indices = s.one_hot ? IndexRange{.count = target.sample.shape.elements()} : dense ? IndexRange{} : target.indices;
  const Allowed allowed = indices.count > 0 ? Allowed{static_cast<double>(indices.lowest), static_cast<double>(indices.count - 1), true}
                                            : allowed_in(target, field.sample.dtype, loss);
  if (allowed.all()) return;
  const std::int64_t each = field.sample.shape.elements();
  const std::size_t bytes = static_cast<std::size_t>(each) * size_of(field.sample.dtype);
  constexpr std::size_t chunk_bytes = std::size_t{4} << 20;
  const auto chunk = static_cast<std::int64_t>(std::max<std::size_t>(1, chunk_bytes / std::max<std::size_t>(1, bytes)));
  std::vector<std::byte> raw(static_cast<std::size_t>(std::min(chunk, data_.size())) * bytes);
  std::vector<std::int64_t> samples;
  for (std::int64_t begin = 0; begin < data_.size(); begin += chunk) {
    samples.resize(static_cast<std::size_t>(std::min(chunk, data_.size() - begin)));
    std::iota(samples.begin(), samples.end(), begin);
    data_.read(static_cast<std::size_t>(s.field), samples, raw.data());
    visit_number(field.sample.dtype, [&]<class T>() {
      const std::span given(reinterpret_cast<const T*>(raw.data()), samples.size() * static_cast<std::size_t>(each));
      const auto bad = std::find_if(given.begin(), given.end(), [&](T v) {
        return !allowed.has(static_cast<double>(v)) && !(indices.ignored && static_cast<double>(v) == static_cast<double>(*indices.ignored));
      });
      if (bad != given.end()) refuse(t, indices, allowed, samples[static_cast<std::size_t>(bad - given.begin()) / static_cast<std::size_t>(each)], static_cast<double>(*bad));
    });
  }
}

void Feed::refuse(std::size_t t, const IndexRange& indices, const Allowed& allowed, std::int64_t sample, double value) const {
  const FeedTarget& target = targets_[t];
  const std::string where = data_.describe(sample), &field = data_.fields()[static_cast<std::size_t>(sources_[t].field)].name;
  const std::string range = concat("(", indices.lowest, " to ", indices.count - 1, ")");
  if (target.label && indices.count > 0)
    fail(ExitCode::data, where, " has label ", text_of(value), ", the model's output has ", indices.count, " classes ", range, ": option head gives it another number",
         value == -100 ? "; to ignore places by a label of -100, as PyTorch does, is not supported" : "");
  const std::string takes = target.label ? "the loss takes " : concat("the model's input '", target.name, "' takes ");
  if (indices.count > 0) fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, "one of ", indices.count, ' ', range);
  fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, target.sample.dtype, 
       allowed.whole ? concat(": whole numbers from ", text_of(allowed.low), " to ", text_of(allowed.high)) : fmt::format(": finite numbers from {:g} to {:g}", allowed.low, allowed.high));
}

}  // namespace tandem
