#include "trainer/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "planner/passes/losses.h"
#include "trainer/random.h"

namespace tandem {
namespace {

Shape without_ones(const Shape& s) {
  Shape out;
  for (const std::int64_t d : s)
    if (d != 1) out.dims.push_back(d);
  return out;
}

// An image as its field lays it out, with the channels last.
template <class Source>
void gather(const Source& s, const std::uint8_t* from, Image& to) {
  to.reshape(s.h, s.w, s.c);
  std::uint8_t* out = to.pixels.data();
  for (std::int64_t y = 0; y < s.h; ++y)
    for (std::int64_t x = 0; x < s.w; ++x)
      for (std::int64_t c = 0; c < s.c; ++c) *out++ = from[c * s.from[0] + y * s.from[1] + x * s.from[2]];
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
  if (target.weight) a.low = 0;
  if (!target.label || target.weight) return a;
  for (const LossRow& row : loss_rows())
    if (row.name == (target.loss.empty() ? loss : target.loss)) {
      a.low = std::max(a.low, row.low);
      a.high = std::min(a.high, row.high);
    }
  return a;
}

}  // namespace

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
    if (!targets_[t].label)
      choose(t, [&](const Field& f) { return f.name == targets_[t].name; });
    else if (!targets_[t].field.empty())
      choose(t, [&](const Field& f) { return f.role == Role::label && f.name == targets_[t].field; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (targets_[t].label) choose(t, [&](const Field& f) { return f.role == (targets_[t].weight ? Role::weight : Role::label); });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field& f) { return f.role == Role::input; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field& f) { return f.role != Role::weight; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    for (std::size_t f = 0; f < fields.size() && targets_[t].ahead && chosen[t] < 0; ++f)
      if (fields[f].role == Role::input && !is_float(fields[f].sample.dtype) && fields[f].sample.shape.elements() == targets_[t].sample.shape.elements())
        chosen[t] = static_cast<int>(f);
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (chosen[t] < 0 && !targets_[t].label)
      fail(ExitCode::data, data.name(), " has nothing for the model's input '", targets_[t].name, "' ", targets_[t].sample, "; it has ",
           names_of(fields));
    sources_.push_back(chosen[t] < 0 ? Source{} : match(targets_[t], chosen[t]));
  }
}

Feed::Source Feed::match(const FeedTarget& target, int index) const {
  const Shape& want = target.sample.shape;
  Source s;
  s.field = index;
  Field field = data_.fields()[static_cast<std::size_t>(index)];
  if (field.encoded) {  // decoded to what the target wants, the channels last
    const auto colours = [](std::int64_t n) { return n == 1 || n == 3; };
    const bool first = want.rank() == 3 && colours(want[0]), last = want.rank() == 3 && colours(want[2]);
    if (target.label || !(first || last || want.rank() == 2) || want.elements() < 1)
      fail(ExitCode::data, data_.name(), ": samples of '", field.name, "' are image files, the model's ", target.label ? "labels take " : concat("input '", target.name, "' takes "),
           target.sample, " per sample: an image takes [channels, height, width] or [height, width, channels], with 1 or 3 channels");
    s.encoded = true;
    field.axes = Axes::channels_last;
    field.pixels = true;
    field.sample = {DType::uint8, want.rank() == 2 ? Shape{want[0], want[1], 1} : first ? Shape{want[1], want[2], want[0]} : want};
  }
  s.have = field.sample;
  const Shape& have = s.have.shape;
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
  if (s.image && !preprocess_.recipe.empty() && s.have.dtype != DType::uint8)
    fail(ExitCode::data, data_.name(), ": '", field.name, "' is ", field.sample, ", the augmentation ", preprocess_.recipe[0].name, " takes images of bytes (uint8)");
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

std::int64_t Feed::workers() const {
  constexpr std::int64_t most = 8;
  if (preprocess_.workers > 0) return preprocess_.workers;
  const bool decodes = std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.encoded; });
  return decodes ? std::clamp<std::int64_t>(std::thread::hardware_concurrency() / 4, 1, most) : 1;
}

// An image file at the target's size, augmented but for what `convert` does.
void Feed::prepare(const Source& s, std::int64_t sample, std::int64_t epoch, bool augment, Image& to) const {
  thread_local std::vector<std::byte> file;
  thread_local Image whole;
  const bool box = augment && preprocess_.random_box;
  data_.encoded(static_cast<std::size_t>(s.field), sample, file);
  const std::int64_t room = box ? 2 : 1;  // a box is of a part alone
  const std::int64_t shorter = std::max(preprocess_.resizing.shorter, std::int64_t{0});
  decode_image(file, {s.c, room * std::max(s.h, shorter), room * std::max(s.w, shorter)}, data_.describe(sample), whole);
  if (!box) return fit_image(whole, preprocess_.resizing, s.h, s.w, to);
  Random random(seed_, stream_of(concat("box/", epoch, '/', sample)));
  resize_image(whole, random_box(whole.height, whole.width, random), s.h, s.w, to);
}

std::vector<std::int64_t> Feed::without_bad(std::span<const std::int64_t> batch) {
  std::vector<std::int64_t> samples(batch.begin(), batch.end());
  if (preprocess_.bad_samples == 0) return samples;
  const std::lock_guard lock(bad_mutex_);
  for (std::int64_t& sample : samples)
    while (bad_.contains(sample)) sample = (sample + 1) % data_.size();
  return samples;
}

void Feed::set_aside(std::int64_t sample, const Error& error) {
  const std::lock_guard lock(bad_mutex_);
  if (!bad_.insert(sample).second) return;  // by another thread
  if (std::ssize(bad_) > preprocess_.bad_samples || std::ssize(bad_) == data_.size())
    fail(error.code(), error.what(), preprocess_.bad_samples > 0 ? concat(" (and ", bad_.size() - 1, " others before, which is all that may be left out)") : "");
  if (preprocess_.on_bad_sample) preprocess_.on_bad_sample(error.what());
}

void Feed::fill(std::span<const std::int64_t> whole_batch, RowRange inputs, std::int64_t epoch, bool augment, std::span<std::byte* const> to) {
  const std::vector<std::int64_t> batch = without_bad(whole_batch);
  const bool moving = augment && (preprocess_.crop > 0 || preprocess_.flip), painting = augment && !preprocess_.recipe.empty();
  thread_local std::vector<std::byte> scratch;  // one batch of one field as the data set holds it, or one image
  thread_local Image image;
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const Source& s = sources_[t];
    if (s.field < 0 || !to[t]) continue;
    const TensorType &have = s.have, &want = targets_[t].sample;
    const RowRange rows = targets_[t].label ? RowRange{0, std::ssize(batch)} : inputs;
    const auto samples = std::span(batch).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
    std::byte* const target = to[t] + rows.first * want.shape.elements() * static_cast<std::int64_t>(size_of(want.dtype));
    const bool copies = have.dtype == want.dtype && !s.image && !s.one_hot && s.scale.empty();
    if (copies) {
      data_.read(static_cast<std::size_t>(s.field), samples, target);
      look_ahead(t, samples, target);
      continue;
    }
    const auto have_elements = have.shape.elements(), want_elements = want.shape.elements();
    const std::size_t each = static_cast<std::size_t>(have_elements) * size_of(have.dtype);
    scratch.resize(std::max(scratch.size(), s.encoded ? 0 : samples.size() * each));
    if (!s.encoded) data_.read(static_cast<std::size_t>(s.field), samples, scratch.data());
    Source last = s;  // of images that were made one by one, which have their channels last
    last.from[0] = 1;
    last.from[1] = s.w * s.c;
    last.from[2] = s.c;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::int64_t sample = samples[i];
      const bool alone = s.image && (s.encoded || painting);
      if (s.encoded) try {
          prepare(s, sample, epoch, augment, image);
        } catch (const Error& error) {
          if (error.code() != ExitCode::data && error.code() != ExitCode::io) throw;
          if (preprocess_.bad_samples == 0) throw;
          set_aside(sample, error);
          return fill(whole_batch, inputs, epoch, augment, to);
        }
      else if (alone)
        gather(s, reinterpret_cast<const std::uint8_t*>(scratch.data() + i * each), image);
      if (alone && painting) {
        Random random(seed_, stream_of(concat("recipe/", epoch, '/', sample)));
        augment_image(image, preprocess_.recipe, random);
      }
      std::int64_t dy = 0, dx = 0;
      bool mirror = false;
      if (moving && s.image) {
        Random random(seed_, stream_of(concat("augment/", epoch, '/', sample)));
        dy = random.below(2 * preprocess_.crop + 1) - preprocess_.crop;
        dx = random.below(2 * preprocess_.crop + 1) - preprocess_.crop;
        mirror = preprocess_.flip && random.below(2) == 1;
        if (s.encoded && preprocess_.random_box) dy = dx = 0;
      }
      visit_number(have.dtype, [&]<class From>() {
        visit_number(want.dtype, [&]<class To>() {
          const From* from = alone ? reinterpret_cast<const From*>(image.pixels.data()) : reinterpret_cast<const From*>(scratch.data() + i * each);
          To* out = reinterpret_cast<To*>(target) + static_cast<std::int64_t>(i) * want_elements;
          if (!s.one_hot) return convert(alone ? last : s, from, out, dy, dx, mirror);
          std::fill_n(out, want_elements, To{});
          const auto label = static_cast<std::int64_t>(*from);
          if (label >= 0 && label < want_elements) out[label] = To{1};
        });
      });
    }
    look_ahead(t, samples, target);
  }
}

std::optional<std::int64_t> Feed::length(std::size_t target, std::int64_t sample) const {
  return data_.length(static_cast<std::size_t>(sources_[target].field), sample);
}

void Feed::look_ahead(std::size_t t, std::span<const std::int64_t> samples, std::byte* to) const {
  if (!targets_[t].ahead) return;
  const std::int64_t places = targets_[t].sample.shape.elements();
  auto* label = reinterpret_cast<std::int64_t*>(to);
  for (std::size_t n = 0; n < samples.size() && places > 0; ++n, label += places) {
    std::copy(label + 1, label + places, label);
    const std::int64_t filled = std::clamp<std::int64_t>(length(t, samples[n]).value_or(places), 1, places);
    std::fill(label + filled - 1, label + places, *targets_[t].ahead);
  }
}

void Feed::check_values(std::string_view loss) {
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!has(t) && targets_[t].weight) fail(ExitCode::data, data_.name(), " has no weights of samples (option sample_weights); it has ", names_of(data_.fields()));
    if (!has(t))
      fail(ExitCode::data, data_.name(), " has no labels for the loss '", loss, "'", targets_[t].field.empty() ? "" : concat(" of '", targets_[t].field, "'"), "; it has ", names_of(data_.fields()));
    check_values(t, loss);
  }
}

void Feed::check_values(std::size_t t, std::string_view loss) {
  const Source& s = sources_[t];
  if (s.encoded) return;
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
    fail(ExitCode::data, where, " has label ", text_of(value), ", the model's output has ", indices.count, " classes ", range,
         value == -100 ? "; option ignore_index -100 leaves such places out, as PyTorch does" : ": option head gives it another number");
  const std::string takes = target.label ? "the loss takes " : concat("the model's input '", target.name, "' takes ");
  if (indices.count > 0) fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, "one of ", indices.count, ' ', range);
  fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, target.sample.dtype, 
       allowed.whole ? concat(": whole numbers from ", text_of(allowed.low), " to ", text_of(allowed.high)) : fmt::format(": finite numbers from {:g} to {:g}", allowed.low, allowed.high));
}

}  // namespace tandem
