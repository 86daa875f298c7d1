// How a field of a data set becomes an input of a plan: which strides it is walked by, what becomes of a number, whether its bytes
// may go as they are.
#include "trainer/feed/feed.h"

#include <algorithm>

namespace tandem {
namespace {

Shape without_ones(const Shape& s) {
  Shape out;
  for (const std::int64_t d : s)
    if (d != 1) out.dims.push_back(d);
  return out;
}

// A field of image files as they are decoded: to what the target wants, the channels last.
Field decoded(Field field, const FeedTarget& target, const std::string& data) {
  const Shape& want = target.sample.shape;
  const auto colours = [](std::int64_t n) { return n == 1 || n == 3; };
  const bool first = want.rank() == 3 && colours(want[0]), last = want.rank() == 3 && colours(want[2]);
  if (target.label || !(first || last || want.rank() == 2) || want.elements() < 1)
    fail(ExitCode::data, data, ": samples of '", field.name, "' are image files, the model's ",
         target.label ? "labels take " : concat("input '", target.name, "' takes "), target.sample,
         " per sample: an image takes [channels, height, width] or [height, width, channels], with 1 or 3 channels");
  field.axes = Axes::channels_last;
  field.pixels = true;
  field.sample = {DType::uint8, want.rank() == 2 ? Shape{want[0], want[1], 1} : first ? Shape{want[1], want[2], want[0]} : want};
  return field;
}

// Two orders of axes can be told apart: as the field has them, or with the channels moved.
enum class Order { same, to_last, to_first };
Order order_of(Axes axes, const Shape& have, const Shape& want) {
  if (have.rank() != 3 || want.rank() != 3 || have == want) return Order::same;
  const Shape moved_last{have[1], have[2], have[0]}, moved_first{have[2], have[0], have[1]};
  if (axes != Axes::channels_last && moved_last == want) return Order::to_last;
  return axes != Axes::channels_first && moved_first == want ? Order::to_first : Order::same;
}

// How an image is walked in the field and in the target.
template <class Source>
void walk_as_image(Source& s, bool from_first, bool to_first) {
  const Shape& have = s.have.shape;
  s.image = true;
  s.from_first = from_first;
  s.to_first = to_first;
  s.c = have[from_first ? 0 : 2];
  s.h = have[from_first ? 1 : 0];
  s.w = have[from_first ? 2 : 1];
  const auto strides = [&](std::int64_t* out, bool channels_first) {
    out[0] = channels_first ? s.h * s.w : 1;
    out[1] = channels_first ? s.w : s.w * s.c;
    out[2] = channels_first ? 1 : s.c;
  };
  strides(s.from, from_first);
  strides(s.to, to_first);
}

}  // namespace

Feed::Source Feed::match(const FeedTarget& target, int index) const {
  const Shape& want = target.sample.shape;
  Source s;
  s.field = index;
  Field field = data_.fields()[static_cast<std::size_t>(index)];
  s.encoded = field.encoded;
  if (field.encoded) field = decoded(std::move(field), target, data_.name());
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
  if (is_small(target.sample.dtype))
    fail(ExitCode::data, "the model's input '", target.name, "' takes ", target.sample.dtype,
         ", which no data set holds: a Cast within the model makes it of numbers that one does");
  if (target.label && is_float(target.sample.dtype) && have.elements() == 1 && want.elements() > 1) {
    if (is_float(field.sample.dtype)) no_integers();
    s.one_hot = true;
    return s;
  }
  if (!is_float(target.sample.dtype) && is_float(field.sample.dtype)) no_integers();
  if (have.elements() != want.elements()) mismatch();

  const Order order = order_of(field.axes, have, want);
  if (order == Order::same && have != want && want.rank() != 1 && have.rank() != 1 && without_ones(have) != without_ones(want)) mismatch();
  const bool first = field.axes == Axes::channels_first;
  if (order != Order::same)
    walk_as_image(s, order == Order::to_last, order == Order::to_first);
  else if (have.rank() == 3 && (first || field.axes == Axes::channels_last))
    walk_as_image(s, first, first);
  if (!target.label) set_scale(s, target, field);
  if (s.image && !preprocess_.recipe.empty() && s.have.dtype != DType::uint8)
    fail(ExitCode::data, data_.name(), ": '", field.name, "' is ", field.sample, ", the augmentation ", preprocess_.recipe[0].name,
         " takes images of bytes (uint8)");
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
    for (int v = 0; v < 256 && s.have.dtype == DType::uint8; ++v)
      s.of_bytes.push_back(static_cast<float>(v) * static_cast<float>(s.scale.back()) + static_cast<float>(s.shift.back()));
  }
}

std::optional<GivenBytes> Feed::as_bytes(std::size_t t) const {
  constexpr std::size_t entries = 256;
  const Source& s = sources_[t];
  const FeedTarget& target = targets_[t];
  const int rank = target.sample.shape.rank();
  if (!has(t) || target.label || s.have.dtype != DType::uint8 || target.sample.dtype != DType::float32 || preprocess_.mixup > 0)
    return std::nullopt;
  GivenBytes bytes{.perm = {}, .axis = s.image && rank == 3 && s.to_first ? 1 : rank, .table = s.of_bytes};
  for (std::size_t v = 0; v < entries && s.scale.empty(); ++v) bytes.table.push_back(static_cast<float>(v));
  const auto row = [&](std::size_t c) { return std::span(bytes.table).subspan(c * entries, entries); };
  const std::size_t rows = bytes.table.size() / entries;
  std::size_t alike = 1;
  while (alike < rows && std::ranges::equal(row(0), row(alike))) ++alike;
  if (alike == rows) bytes.table.resize(entries);
  if (alike < rows && rank != 3) return std::nullopt;  // the channels are no axis of the target
  if (s.image && s.c > 1 && s.from_first != s.to_first) bytes.perm = s.to_first ? Ints{0, 3, 1, 2} : Ints{0, 2, 3, 1};
  return bytes;
}

bool Feed::give_bytes(const std::map<std::string, GivenBytes, std::less<>>& bytes) {
  std::vector<std::size_t> given;
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (const auto it = bytes.find(targets_[t].name); it != bytes.end() && !targets_[t].label) {
      if (as_bytes(t) != it->second) return false;
      given.push_back(t);
    }
  if (given.empty() || given.size() != bytes.size()) return false;
  for (const std::size_t t : given) {
    TensorType& sample = targets_[t].sample;
    Shape whole = sample.shape;
    whole.dims.insert(whole.dims.begin(), 1);
    sample = given_type(bytes.at(targets_[t].name), whole);
    sample.shape.dims.erase(sample.shape.dims.begin());
    Source& s = sources_[t];
    s.given = true;
    std::ranges::copy(s.from, s.to);
    s.to_first = s.from_first;
    s.scale.clear();
    s.shift.clear();
    s.of_bytes.clear();
  }
  return true;
}

}  // namespace tandem
