// What data may not be fed: values that a loss or a model cannot take, and samples that cannot be mixed.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/option.h"
#include "planner/loss/losses.h"
#include "trainer/feed/feed.h"

namespace tandem {
namespace {

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
  a.nan = target.nan && is_float(want);
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

void Feed::check_mixing(std::string_view loss) const {
  const std::string what = concat(option("augment"), ": mixup and cutmix ");
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const FeedTarget& target = targets_[t];
    const Source& s = sources_[t];
    if (target.weight) fail(ExitCode::usage, what, "mix samples, which then have no weights of their own (", option("sample_weights"), ")");
    if (target.label) {
      const std::string_view row = target.loss.empty() ? loss : std::string_view(target.loss);
      const auto found = std::ranges::find(loss_rows(), row, &LossRow::name);
      const bool shares = found != loss_rows().end() &&
                          (found->labels == LabelKind::classes || found->labels == LabelKind::shares || found->labels == LabelKind::binary);
      if (!shares)
        fail(ExitCode::usage, what, "make labels that are shares of classes, which the loss '", row,
             "' does not take; softmax-cross-entropy does");
      if (!is_float(target.sample.dtype))
        fail(ExitCode::usage, what, "make labels that are shares of classes, the model is compiled for ", target.sample, ": ",
             option("dense_labels"));
    } else if (!is_float(target.sample.dtype) && !s.given) {
      fail(ExitCode::usage, what, "mix numbers, the model's input '", target.name, "' is ", target.sample);
    } else if (preprocess_.cutmix > 0 && (!s.image || s.h != mixed_[0] || s.w != mixed_[1])) {
      fail(ExitCode::usage, option("augment"), ": cutmix takes images of one size, the model's input '", target.name, "' is ",
           target.sample);
    }
  }
}

// Where they went.
std::string Feed::labels_as_input() const {
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (const std::string& name = targets_[t].name;
        has(t) && !targets_[t].label &&
        (name == "labels" || name == "label" || data_.fields()[static_cast<std::size_t>(sources_[t].field)].role == Role::label))
      return concat(", of which the model's input '", name, "' takes one: labels that the loss compares with go by the name y (",
                    option("loss"), " output is for a model that computes its loss of them)");
  return "";
}

void Feed::check_values(std::string_view loss) {
  if (preprocess_.mixes()) check_mixing(loss);
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!has(t) && targets_[t].weight)
      fail(ExitCode::data, data_.name(), " has no weights of samples (", option("sample_weights"), "); it has ", names_of(data_.fields()));
    if (!has(t))
      fail(ExitCode::data, data_.name(), " has no labels for the loss '", loss, "'",
           targets_[t].of.empty() ? "" : concat(" of '", targets_[t].of, "', which are called y_", targets_[t].of), "; it has ",
           names_of(data_.fields()), labels_as_input());
    check_values(t, loss);
  }
}

ValueCheck Feed::check_of(std::size_t t, std::string_view loss) const {
  const Source& s = sources_[t];
  const FeedTarget& target = targets_[t];
  const Field& field = data_.fields()[static_cast<std::size_t>(s.field)];
  const bool dense = target.label && is_float(target.sample.dtype) && !s.one_hot;
  const IndexRange indices = s.one_hot ? IndexRange{.count = target.sample.shape.elements()} : dense ? IndexRange{} : target.indices;
  return {indices, indices.count > 0 ? Allowed{static_cast<double>(indices.lowest), static_cast<double>(indices.count - 1), true}
                                     : allowed_in(target, field.sample.dtype, loss)};
}

void Feed::check_values(std::size_t t, std::string_view loss) {
  Source& s = sources_[t];
  if (s.encoded) return;
  const ValueCheck check = check_of(t, loss);
  if (check.allowed.all()) return;
  if (data_.iterable()) {
    s.check = check;
    return;
  }
  const auto bytes = static_cast<std::size_t>(bytes_of(s.have));
  constexpr std::size_t chunk_bytes = std::size_t{4} << 20;
  const auto chunk = static_cast<std::int64_t>(std::max<std::size_t>(1, chunk_bytes / std::max<std::size_t>(1, bytes)));
  const std::int64_t distinct = data_.distinct(static_cast<std::size_t>(s.field));
  std::vector<std::byte> raw(static_cast<std::size_t>(std::min(chunk, distinct)) * bytes);
  std::vector<std::int64_t> samples;
  for (std::int64_t begin = 0; begin < distinct; begin += chunk) {
    samples.resize(static_cast<std::size_t>(std::min(chunk, distinct - begin)));
    std::iota(samples.begin(), samples.end(), begin);
    data_.read(static_cast<std::size_t>(s.field), samples, raw.data());
    look_through(t, check, samples, raw.data());
  }
}

void Feed::look_through(std::size_t t, const ValueCheck& check, std::span<const std::int64_t> samples, const std::byte* raw) const {
  const TensorType& have = sources_[t].have;
  const auto each = static_cast<std::size_t>(have.shape.elements());
  const std::optional<std::int64_t>& ignored = check.indices.ignored;
  visit_number(have.dtype, [&]<class T>() {
    const std::span given(reinterpret_cast<const T*>(raw), samples.size() * each);
    const auto bad = std::find_if(given.begin(), given.end(), [&](T v) {
      return !check.allowed.has(static_cast<double>(v)) && !(ignored && static_cast<double>(v) == static_cast<double>(*ignored));
    });
    if (bad != given.end()) refuse(t, check, samples[static_cast<std::size_t>(bad - given.begin()) / each], static_cast<double>(*bad));
  });
}

void Feed::refuse(std::size_t t, const ValueCheck& check, std::int64_t sample, double value) const {
  const auto& [indices, allowed] = check;
  const FeedTarget& target = targets_[t];
  const std::string where = data_.describe(sample), &field = data_.fields()[static_cast<std::size_t>(sources_[t].field)].name;
  const std::string range = concat("(", indices.lowest, " to ", indices.count - 1, ")");
  if (target.label && indices.count > 0)
    fail(ExitCode::data, where, " has label ", text_of(value), ", the model's output has ", indices.count, " classes ", range,
         value == -100 ? concat("; ", option("ignore_index"), " -100 leaves such places out, as PyTorch does")
                       : concat(": ", option("head"), " gives it another number"));
  const std::string takes = target.label ? "the loss takes " : concat("the model's input '", target.name, "' takes ");
  if (indices.count > 0)
    fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, "one of ", indices.count, ' ', range);
  fail(ExitCode::data, where, " has ", text_of(value), " in '", field, "', ", takes, target.sample.dtype,
       allowed.whole ? concat(": whole numbers from ", text_of(allowed.low), " to ", text_of(allowed.high))
                     : fmt::format(": finite numbers from {:g} to {:g}", allowed.low, allowed.high));
}

}  // namespace tandem
