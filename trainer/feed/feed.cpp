#include "trainer/feed/feed.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/cores.h"
#include "base/option.h"
#include "data/mix.h"
#include "data/stream.h"

namespace tandem {
namespace {

// At least so large; a buffer of a thread is used again and again.
void take_size(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

// A thread keeps no more memory of images than those take that the model is given, four times as high and wide.
template <class T>
void give_back(std::vector<T>& buffer, std::int64_t target) {
  constexpr std::size_t least = std::size_t{4} << 20;
  if (buffer.capacity() * sizeof(T) > std::max(least, static_cast<std::size_t>(16 * target))) std::vector<T>().swap(buffer);
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

}  // namespace

bool feeds(const FeedTarget& target, const HostInput& input) {
  switch (input.role) {
    case ValueRole::plain: return !target.label && target.name == input.name;
    case ValueRole::label: return target.label && !target.weight && target.of == input.of;
    case ValueRole::sample_weight: return target.weight;
    default: return false;  // it is the session's own
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
    if (!targets_[t].label)
      choose(t, [&](const Field& f) { return f.name == targets_[t].name; });
    else if (!targets_[t].of.empty())
      choose(t, [&](const Field& f) { return f.role == Role::label && f.name == targets_[t].of; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (targets_[t].label) choose(t, [&](const Field& f) { return f.role == (targets_[t].weight ? Role::weight : Role::label); });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field& f) { return f.role == Role::input; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (!targets_[t].label) choose(t, [](const Field& f) { return f.role != Role::weight; });
  for (std::size_t t = 0; t < targets_.size(); ++t)
    for (std::size_t f = 0; f < fields.size() && targets_[t].ahead && chosen[t] < 0; ++f)
      if (fields[f].role == Role::input && !is_float(fields[f].sample.dtype) &&
          fields[f].sample.shape.elements() == targets_[t].sample.shape.elements())
        chosen[t] = static_cast<int>(f);
  const bool compares = std::any_of(targets_.begin(), targets_.end(), [](const FeedTarget& t) { return t.label && !t.weight; });
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (chosen[t] < 0 && !targets_[t].label)
      fail(ExitCode::data, data.name(), " has nothing for the model's input '", targets_[t].name, "' ", targets_[t].sample, "; it has ",
           names_of(fields),
           compares ? concat(" (its labels are what the loss compares with; ", option("loss"),
                             " output is for a model that computes its loss of them)")
                    : "");
    if (chosen[t] >= 0 && !targets_[t].label && fields[static_cast<std::size_t>(chosen[t])].role == Role::label &&
        fields[static_cast<std::size_t>(chosen[t])].name != targets_[t].name)
      assumed_ =
          concat("the model's input '", targets_[t].name, "' takes the data's labels '", fields[static_cast<std::size_t>(chosen[t])].name,
                 "', as nothing in the data goes by its name; what does goes first");
    sources_.push_back(chosen[t] < 0 ? Source{} : match(targets_[t], chosen[t]));
    if (sources_[t].image && mixed_[0] == 0) mixed_ = {sources_[t].h, sources_[t].w};
  }
}

// A line of one channel: to[x · out] = value(from[x · step]). The compiler sees the steps of numbers in a row and, of bytes and
// floats, those of images with their channels last.
template <class From, class To, class Value>
void convert_line(const From* from, std::int64_t step, To* to, std::int64_t out, std::int64_t count, Value&& value) {
  const auto along = [&](auto s, auto o) {
    for (std::int64_t x = 0; x < count; ++x) to[x * o] = value(from[x * s]);
  };
  const std::integral_constant<std::int64_t, 1> one;
  const std::integral_constant<std::int64_t, 3> three;
  if (out == 1 && step == 1) return along(one, one);
  if constexpr (std::is_same_v<From, std::uint8_t> || std::is_same_v<From, float>) {
    if (out == 1 && step == 3) return along(three, one);
    if (out == 3 && step == 3) return along(three, three);
  }
  along(step, out);
}

// visit_wide(dtype, [&]<class T>() { ... }) with T the one of three types that holds all numbers of `dtype`: they become a third type's
// by way of T as they do at once, to the bit.
template <class F>
void visit_wide(DType dtype, F&& f) {
  if (is_float(dtype)) return f.template operator()<double>();
  dtype == DType::uint64 ? f.template operator()<std::uint64_t>() : f.template operator()<std::int64_t>();
}

// Whether images are converted so often that it is done at once.
bool at_once(DType from, DType to) { return to == DType::float32 && (from == DType::uint8 || from == DType::float32); }

// Numbers as their wide type.
void widen(DType dtype, const std::byte* from, std::size_t count, std::vector<std::byte>& to) {
  take_size(to, count * sizeof(std::int64_t));
  visit_wide(dtype, [&]<class Wide>() {
    visit_number(dtype, [&]<class T>() {
      if constexpr (std::is_floating_point_v<T> == std::is_floating_point_v<Wide>)
        std::copy_n(reinterpret_cast<const T*>(from), count, reinterpret_cast<Wide*>(to.data()));
    });
  });
}

// A label as a row of zeros with a one at its place; one that is no class is all zeros.
void write_one_hot(DType dtype, const std::byte* from, const TensorType& want, std::byte* to) {
  const std::int64_t classes = want.shape.elements();
  std::int64_t label = 0;
  visit_number(dtype, [&]<class T>() { label = static_cast<std::int64_t>(*reinterpret_cast<const T*>(from)); });
  visit_number(want.dtype, [&]<class To>() {
    auto* const row = reinterpret_cast<To*>(to);
    std::fill_n(row, classes, To{});
    if (label >= 0 && label < classes) row[label] = To{1};
  });
}

// One sample by `convert(numbers, to)`, with the numbers as they are or as their wide type.
template <class Convert>
void write_numbers(const TensorType& have, const std::byte* from, const TensorType& want, std::byte* out, Convert&& convert) {
  if (at_once(have.dtype, want.dtype)) {
    auto* const to = reinterpret_cast<float*>(out);
    if (have.dtype == DType::uint8) return convert(reinterpret_cast<const std::uint8_t*>(from), to);
    return convert(reinterpret_cast<const float*>(from), to);
  }
  thread_local std::vector<std::byte> wide;
  widen(have.dtype, from, static_cast<std::size_t>(have.shape.elements()), wide);
  visit_wide(have.dtype, [&]<class Wide>() {
    visit_number(want.dtype, [&]<class To>() { convert(reinterpret_cast<const Wide*>(wide.data()), reinterpret_cast<To*>(out)); });
  });
}

// How far an image is moved, and whether it is mirrored.
struct Move {
  std::int64_t dy = 0, dx = 0;
  bool mirror = false;
  bool any() const { return dy != 0 || dx != 0 || mirror; }
};
Move draw_move(const Preprocess& p, bool encoded, Random random) {
  Move move;
  move.dy = random.below(2 * p.crop + 1) - p.crop;
  move.dx = random.below(2 * p.crop + 1) - p.crop;
  move.mirror = p.flip && random.below(2) == 1;
  if (encoded && p.random_box) move.dy = move.dx = 0;
  return move;
}

template <class From, class To>
void Feed::convert(const Source& s, const From* from, To* to, std::int64_t dy, std::int64_t dx, bool mirror) const {
  // x in the target is base + direction · x in the field; from `begin` to `end` that is inside.
  const std::int64_t direction = mirror ? -1 : 1, base = mirror ? s.w - 1 + dx : dx;
  const std::int64_t begin = std::clamp<std::int64_t>(mirror ? dx : -dx, 0, s.w),
                     end = std::clamp<std::int64_t>(mirror ? s.w + dx : s.w - dx, begin, s.w);
  for (std::int64_t c = 0; c < s.c; ++c) {
    const auto channel = [&](auto&& value) {
      for (std::int64_t y = 0; y < s.h; ++y) {
        To* row = to + c * s.to[0] + y * s.to[1];
        const bool inside = y + dy >= 0 && y + dy < s.h;
        const From* line = from + c * s.from[0] + (y + dy) * s.from[1] + base * s.from[2];
        const auto outside = [&](std::int64_t x, std::int64_t to_x) {
          for (; x < to_x; ++x) row[x * s.to[2]] = value(From{});
        };
        outside(0, inside ? begin : s.w);
        if (!inside) continue;
        convert_line(line + direction * begin * s.from[2], direction * s.from[2], row + begin * s.to[2], s.to[2], end - begin, value);
        outside(end, s.w);
      }
    };
    const auto at = static_cast<std::size_t>(c);
    if (s.scale.empty()) {
      channel([](From v) { return static_cast<To>(v); });
    } else if constexpr (std::is_same_v<From, std::uint8_t>) {
      channel([table = s.of_bytes.data() + 256 * at](From v) { return static_cast<To>(table[v]); });
    } else {
      channel([scale = static_cast<float>(s.scale[at]), shift = static_cast<float>(s.shift[at])](From v) {
        return static_cast<To>(static_cast<float>(v) * scale + shift);
      });
    }
  }
}

std::int64_t Feed::workers() const {
  constexpr std::int64_t most = 8;
  if (preprocess_.workers > 0) return preprocess_.workers;
  const bool decodes = std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.encoded; });
  return decodes ? std::clamp<std::int64_t>(std::ssize(usable_cores()) / 4, 1, most) : 1;
}

// An image file at the target's size, augmented but for what `convert` does.
void Feed::prepare(const Source& s, std::int64_t sample, std::int64_t epoch, bool augment, Image& to) const {
  thread_local std::vector<std::byte> file;
  thread_local Image whole;
  const bool box = augment && preprocess_.random_box;
  data_.encoded(static_cast<std::size_t>(s.field), sample, file);
  const std::int64_t room = box ? 2 : 1;  // a box is of a part alone
  const std::int64_t shorter = std::max(preprocess_.resizing.shorter, std::int64_t{0});
  ImageRoom memory;
  decode_image(file, {s.c, room * std::max(s.h, shorter), room * std::max(s.w, shorter)}, data_.describe(sample), whole, memory);
  if (box) {
    Random random(seed_, stream_of(concat("box/", epoch, '/', sample)));
    resize_image(whole, random_box(whole.height, whole.width, random), s.h, s.w, to, preprocess_.resizing.filter);
  } else {
    fit_image(whole, preprocess_.resizing, s.h, s.w, to);
  }
  give_back(file, s.h * s.w * s.c);
  give_back(whole.pixels, s.h * s.w * s.c);
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
    fail(error.code(), error.what(),
         preprocess_.bad_samples > 0 ? concat(" (and ", bad_.size() - 1, " others before, which is all that may be left out)") : "");
  if (preprocess_.on_bad_sample) preprocess_.on_bad_sample(error.what());
}

void Feed::fill(std::span<const std::int64_t> batch, std::span<const RowRange> inputs, std::int64_t epoch, bool augment,
                std::span<std::byte* const> to) {
  while (!try_fill(batch, inputs, epoch, augment, to)) {}  // again, without samples that could not be decoded
}

bool Feed::try_fill(std::span<const std::int64_t> whole_batch, std::span<const RowRange> inputs, std::int64_t epoch, bool augment,
                    std::span<std::byte* const> to) {
  const std::vector<std::int64_t> batch = without_bad(whole_batch);
  const bool mixes = augment && preprocess_.mixes() && !batch.empty();
  Mix mix;
  if (mixes) {
    Random random(seed_, stream_of(concat("mix/", epoch, '/', whole_batch[0])));  // an epoch has that sample in one batch alone
    mix = draw_mix(preprocess_.mixup, preprocess_.cutmix, random);
  }
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!has(t) || !to[t]) continue;
    const RowRange all{0, std::ssize(batch)};
    for (const RowRange& rows : targets_[t].label ? std::span(&all, 1) : inputs) {
      std::byte* const target = to[t] + rows.first * bytes_of(targets_[t].sample);
      const auto samples = std::span(batch).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
      if (!fill_rows(t, samples, epoch, augment, target)) return false;
      if (mixes && rows.count > 0 && !mix_rows(t, mix, batch, rows, epoch, target)) return false;
    }
  }
  return true;
}

bool Feed::fill_rows(std::size_t t, std::span<const std::int64_t> samples, std::int64_t epoch, bool augment, std::byte* target) {
  const bool painting = augment && !preprocess_.recipe.empty();
  thread_local std::vector<std::byte> scratch;  // these samples of one field as the data set holds them
  thread_local Image image;
  const Source& s = sources_[t];
  const TensorType &have = s.have, &want = targets_[t].sample;
  const bool moving = s.image && augment && (preprocess_.crop > 0 || preprocess_.flip), alone = s.image && (s.encoded || painting);
  const bool same = have.dtype == want.dtype && !s.one_hot && s.scale.empty();
  if (same && !alone && !moving && s.as_it_lies()) {
    data_.read(static_cast<std::size_t>(s.field), samples, target);
    if (s.check) look_through(t, *s.check, samples, target);
    look_ahead(t, samples, target);
    return true;
  }
  const auto each = static_cast<std::size_t>(bytes_of(have));
  if (!s.encoded) {
    take_size(scratch, samples.size() * each);
    data_.read(static_cast<std::size_t>(s.field), samples, scratch.data());
    if (s.check) look_through(t, *s.check, samples, scratch.data());
  }
  Source last = s;  // of images that were made one by one, which have their channels last
  last.from[0] = 1;
  last.from[1] = s.w * s.c;
  last.from[2] = s.c;
  const Source& lies = alone ? last : s;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t sample = samples[i];
    if (s.encoded) try {
        prepare(s, sample, epoch, augment, image);
      } catch (const Error& error) {
        if (error.code() != ExitCode::data && error.code() != ExitCode::io) throw;
        if (preprocess_.bad_samples == 0) throw;
        set_aside(sample, error);
        return false;
      }
    else if (alone)
      gather(s, reinterpret_cast<const std::uint8_t*>(scratch.data() + i * each), image);
    if (alone && painting) {
      Random random(seed_, stream_of(concat("recipe/", epoch, '/', sample)));
      augment_image(image, preprocess_.recipe, random);
    }
    const Move move =
        moving ? draw_move(preprocess_, s.encoded, Random(seed_, stream_of(concat("augment/", epoch, '/', sample)))) : Move();
    const std::byte* const from = alone ? reinterpret_cast<const std::byte*>(image.pixels.data()) : scratch.data() + i * each;
    std::byte* const out = target + static_cast<std::int64_t>(i) * bytes_of(want);
    if (same && !move.any() && lies.as_it_lies())
      std::memcpy(out, from, each);
    else if (s.one_hot)
      write_one_hot(have.dtype, from, want, out);
    else
      write_numbers(have, from, want, out,
                    [&](const auto* numbers, auto* to) { convert(lies, numbers, to, move.dy, move.dx, move.mirror); });
  }
  look_ahead(t, samples, target);
  return true;
}

// Rows are mixed from the last on, so that the one before is as it was read; the first one's is the batch's last, or, of a rank that has
// other rows, read for it.
bool Feed::mix_rows(std::size_t t, const Mix& mix, std::span<const std::int64_t> batch, RowRange rows, std::int64_t epoch,
                    std::byte* target) {
  thread_local std::vector<std::byte> before;
  const Source& s = sources_[t];
  const std::int64_t bytes = bytes_of(targets_[t].sample);
  take_size(before, static_cast<std::size_t>(bytes));
  if (rows.count == std::ssize(batch)) {
    std::copy_n(target + (rows.count - 1) * bytes, bytes, before.data());
  } else {
    const std::int64_t sample = batch[static_cast<std::size_t>((rows.first + std::ssize(batch) - 1) % std::ssize(batch))];
    if (!fill_rows(t, {&sample, 1}, epoch, true, before.data())) return false;
  }
  visit_number(targets_[t].sample.dtype, [&]<class T>() {
    const auto elements = static_cast<std::size_t>(targets_[t].sample.shape.elements());
    for (std::int64_t i = rows.count; i-- > 0;) {
      const std::span to(reinterpret_cast<T*>(target + i * bytes), elements);
      const std::span from(reinterpret_cast<const T*>(i > 0 ? target + (i - 1) * bytes : before.data()), elements);
      if (targets_[t].label || !mix.cut) {
        if constexpr (std::is_floating_point_v<T>) blend<T>(to, from, mix.share(mixed_[0], mixed_[1]));
        continue;
      }
      const Box box = mix.box(s.h, s.w);
      for (std::int64_t c = 0; c < s.c; ++c)
        for (std::int64_t y = box.top; y < box.top + box.height; ++y)
          for (std::int64_t x = box.left; x < box.left + box.width; ++x) {
            const auto at = static_cast<std::size_t>(c * s.to[0] + y * s.to[1] + x * s.to[2]);
            to[at] = from[at];
          }
    }
  });
  return true;
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

}  // namespace tandem
