// From a data set's samples to a plan's inputs: choosing the field, converting numbers, normalising, laying images out
// as the model wants them, augmenting, one-hot labels.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/preparation.h"
#include "data/prepare.h"
#include "planner/options.h"
#include "planner/plan/plan.h"

namespace tandem {

// One input of a plan, as one sample of it.
struct FeedTarget {
  std::string name;
  TensorType sample;
  bool label = false;   // the labels that the loss takes, not an input of the model
  IndexRange indices{};  // that integers may be: classes, rows of a table
  bool nan = false;      // the model sees to what is missing itself
  std::string loss{};    // of labels: the row of planner/loss/losses.h that says what they may be
  // of labels: the output that they are of, where there are several losses; the data set's field of that name goes first
  std::string of{};
  bool weight = false;   // how much samples count in the loss: a "label" from a field of role weight
  // Class indices become those one ahead, the last one this. Where the data set has no labels they are those of its first
  // input of as many integers.
  std::optional<std::int64_t> ahead{};
};

// Whether a plan's input is given what this target is: by its role, the model's own by their names.
bool feeds(const FeedTarget& target, const HostInput& input);

struct Mix;

// What values of a target may be.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool whole = false, nan = false;
  bool all() const { return low < -std::numeric_limits<double>::max() && high > std::numeric_limits<double>::max() && !whole; }
  bool has(double v) const { return (nan && v != v) || (v >= low && v <= high && (!whole || v == std::trunc(v))); }
};

// What a target is compared with: what may be chosen among, or numbers.
struct ValueCheck {
  IndexRange indices;
  Allowed allowed;
};

// Some of a batch's samples.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

class Feed {
 public:
  // Fails (data) where a target finds no field or the shapes do not fit, naming both.
  Feed(const Dataset& data, std::vector<FeedTarget> targets, Preprocess preprocess, std::uint64_t seed);
  const Dataset& data() const { return data_; }
  const std::vector<FeedTarget>& targets() const { return targets_; }
  // What was assumed, for the user; empty: nothing.
  const std::string& assumed() const { return assumed_; }
  bool has(std::size_t target) const { return sources_[target].field >= 0; }
  // How a target of floats is given as bytes, as the data set has them: where what becomes of a byte is known by its channel. Empty: it
  // is not, of other data, and where samples are mixed to what is no byte.
  std::optional<GivenBytes> as_bytes(std::size_t target) const;
  // From now on targets are given so, of type given_type(). False: these are not what as_bytes says, and nothing has changed.
  bool give_bytes(const std::map<std::string, GivenBytes, std::less<>>& bytes);
  // How much of the target's axis 0 a sample fills, where the data set knows.
  std::optional<std::int64_t> length(std::size_t target, std::int64_t sample) const;
  std::int64_t workers() const;  // as asked for, or what this data needs

  // Writes the samples of every target, one after another. Augmentation depends on seed, epoch and sample only. Called by
  // several threads at once.
  void fill(std::span<const std::int64_t> samples, std::int64_t epoch, bool augment, std::span<std::byte* const> to) {
    const RowRange all{0, static_cast<std::int64_t>(samples.size())};
    fill(samples, std::span(&all, 1), epoch, augment, to);
  }
  // Of the model's inputs only these rows; labels whole.
  void fill(std::span<const std::int64_t> samples, std::span<const RowRange> inputs, std::int64_t epoch, bool augment,
            std::span<std::byte* const> to);
  // Reads all values once that may not be what the model can take: labels and indices out of range, numbers that are none,
  // infinite, or beyond the model's type; of an iterable data set each batch as it is filled. Fails (data) where there are no labels for
  // this loss, or naming the sample, what it has and what is allowed.
  void check_values(std::string_view loss);
  void check_values(std::size_t target, std::string_view loss = "");

 private:
  // How a field becomes a target. Images are walked channel by channel, row by row; all else is one row.
  struct Source {
    std::optional<ValueCheck> check;  // of samples as they come
    int field = -1;  // -1: the data set has none (labels, for prediction)
    std::int64_t c = 1, h = 1, w = 1;
    std::int64_t from[3] = {0, 0, 1};  // strides in the field
    std::int64_t to[3] = {0, 0, 1};    // strides in the target
    bool image = false, encoded = false;
    bool given = false;                        // as bytes
    bool from_first = false, to_first = false;  // images whose channels lie before their rows
    bool as_it_lies() const { return !image || std::ranges::equal(from, to); }
    TensorType have;  // of one sample as it is read, or decoded
    bool one_hot = false;
    std::vector<double> scale, shift;  // of each channel: x * scale + shift
    std::vector<float> of_bytes;       // the same of each byte: 256 a channel
  };
  ValueCheck check_of(std::size_t target, std::string_view loss) const;
  void look_through(std::size_t target, const ValueCheck& check, std::span<const std::int64_t> samples, const std::byte* raw) const;
  [[noreturn]] void refuse(std::size_t target, const ValueCheck& check, std::int64_t sample, double value) const;
  Source match(const FeedTarget& target, int field) const;
  std::string labels_as_input() const;
  void set_scale(Source& source, const FeedTarget& target, const Field& field) const;
  void look_ahead(std::size_t target, std::span<const std::int64_t> samples, std::byte* to) const;
  template <class From, class To>
  void convert(const Source& source, const From* from, To* to, std::int64_t dy, std::int64_t dx, bool mirror) const;

  bool try_fill(std::span<const std::int64_t> batch, std::span<const RowRange> inputs, std::int64_t epoch, bool augment,
                std::span<std::byte* const> to);
  // Of one target; false: one of the samples cannot be decoded and was set aside.
  bool fill_rows(std::size_t target, std::span<const std::int64_t> samples, std::int64_t epoch, bool augment, std::byte* to);
  bool mix_rows(std::size_t target, const Mix& mix, std::span<const std::int64_t> batch, RowRange rows, std::int64_t epoch, std::byte* to);
  void check_mixing(std::string_view loss) const;
  void prepare(const Source& source, std::int64_t sample, std::int64_t epoch, bool augment, Image& to) const;
  std::vector<std::int64_t> without_bad(std::span<const std::int64_t> batch);
  void set_aside(std::int64_t sample, const Error& error);

  const Dataset& data_;
  std::vector<FeedTarget> targets_;
  std::vector<Source> sources_;
  std::string assumed_;
  Preprocess preprocess_;
  std::uint64_t seed_;
  std::array<std::int64_t, 2> mixed_{};  // height and width of the first images
  std::mutex bad_mutex_;
  std::set<std::int64_t> bad_;  // samples that are replaced
};

}  // namespace tandem
