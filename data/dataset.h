// What the trainer learns from: samples with fields (images, labels, ...). One small interface; a reader per format.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace tandem {

enum class Role { input, label, weight };  // weight: how much a sample counts in the loss, one number
// What a sample's axes mean, so that images can be laid out as the model wants them.
enum class Axes { plain, channels_first, channels_last };

// What integers mean that choose among things: -count..count-1 or, as `lowest` says, 0..count-1.
struct IndexRange {
  std::int64_t lowest = 0;
  std::int64_t count = 0;  // 0: they are numbers like others
  std::optional<std::int64_t> ignored;  // may stand for none
};

struct Field {
  std::string name;
  Role role = Role::input;
  TensorType sample;  // of one sample, without the batch
  Axes axes = Axes::plain;
  bool pixels = false;  // uint8 0..255 that stand for 0..1
  bool encoded = false;  // image files (JPEG, PNG, ...) of any size: Dataset::encoded gives their bytes, the feed decodes them
  IndexRange indices{};  // of a model's input, in a request
};

std::string names_of(std::span<const Field> fields);  // with their types, as errors list them

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::string name() const = 0;  // as errors call it: "idx:data/mnist, train"
  virtual std::int64_t size() const = 0;
  // Of a field so many samples, the first ones, are unlike: those behind repeat them.
  virtual std::int64_t distinct(std::size_t /*field*/) const { return size(); }
  virtual std::span<const Field> fields() const = 0;
  // Copies samples[i] of a field to `to`, one after another. Called by several threads at once, as `encoded` is.
  virtual void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const = 0;
  // Samples come as they are read (IterableDataset): each once, in order, those of an epoch behind those of the epoch before. None is known
  // before it is drawn.
  virtual bool iterable() const { return false; }
  // Of an iterable data set: samples begin, begin + 1, ... of an epoch are the next, and alone are read until others are drawn.
  // Called by one thread at a time. Fails (data) where there are no more.
  virtual void draw(std::int64_t /*begin*/, std::int64_t /*count*/) const {}
  // The file that a sample of an encoded field is; `to` is overwritten. Fails (io, data).
  virtual void encoded(std::size_t field, std::int64_t sample, std::vector<std::byte>& to) const;
  // How many numbers of a field along its first axis are the sample's own, where the others fill it up.
  virtual std::optional<std::int64_t> length(std::size_t /*field*/, std::int64_t /*sample*/) const { return {}; }
  // The labels were made as the request has them: they tell nothing of the model's.
  virtual bool follows_request() const { return false; }
  // "idx:data/mnist, train: sample 17", with the file where it is known.
  virtual std::string describe(std::int64_t sample) const;
  // What the indices of a field are called, by index, where the data names them: classes, a text's characters.
  virtual std::vector<std::string> classes(std::size_t /*field*/) const { return {}; }
  // What stands for values that are missing, by the name of their column: what other data of the model is filled with, too.
  virtual std::map<std::string, double> means() const { return {}; }
  // What was assumed, left out or found while it was opened: a sentence each, for the user.
  virtual std::vector<std::string> notes() const { return {}; }
  // Values of the model's inputs that hold no samples, the same for every batch.
  virtual std::map<std::string, Tensor> constants() const { return {}; }
};

// Of the labels, or of the first field that has any.
std::vector<std::string> class_names(const Dataset& data);

// What tells two data sets apart: a hash of the fields and of the samples, or, beyond 64 MiB, of as many of them as that
// takes, spread evenly.
std::string fingerprint(const Dataset& data);

// Samples in memory: axis 0 of every tensor.
class MemoryDataset final : public Dataset {
 public:
  explicit MemoryDataset(std::string name) : name_(std::move(name)) {}
  // Fails (data) where the number of samples differs from the fields before.
  void add(Field field, Tensor values);  // field.sample is taken from `values`
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override;
  const Tensor& values(std::size_t field) const { return values_[field]; }
  std::map<std::string, Tensor> constants() const override { return constants_; }
  void add_constant(std::string input, Tensor value) { constants_.insert_or_assign(std::move(input), std::move(value)); }
  std::vector<std::string> notes() const override { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

 private:
  std::string name_;
  std::vector<std::string> notes_;
  std::vector<Field> fields_;
  std::vector<Tensor> values_;
  std::int64_t size_ = 0;
  std::map<std::string, Tensor> constants_;
};

// Some samples of another data set, which it does not own.
class Subset final : public Dataset {
 public:
  Subset(const Dataset& whole, std::vector<std::int64_t> samples, std::string name)
      : whole_(whole), samples_(std::move(samples)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  std::span<const Field> fields() const override { return whole_.fields(); }
  std::map<std::string, Tensor> constants() const override { return whole_.constants(); }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override;
  void encoded(std::size_t field, std::int64_t sample, std::vector<std::byte>& to) const override;
  std::optional<std::int64_t> length(std::size_t field, std::int64_t sample) const override {
    return whole_.length(field, samples_[static_cast<std::size_t>(sample)]);
  }
  bool follows_request() const override { return whole_.follows_request(); }
  std::string describe(std::int64_t sample) const override;
  std::vector<std::string> classes(std::size_t field) const override { return whole_.classes(field); }
  std::map<std::string, double> means() const override { return whole_.means(); }
  std::vector<std::string> notes() const override { return whole_.notes(); }

 private:
  const Dataset& whole_;
  std::vector<std::int64_t> samples_;
  std::string name_;
};

// A data set's parts. Parts a format does not have are null.
struct Splits {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;
  std::unique_ptr<Dataset> test;
};

// Holds out a share of `whole`, chosen by `seed`: {the rest, the share}. Both refer to `whole`.
std::pair<std::unique_ptr<Dataset>, std::unique_ptr<Dataset>> hold_out(const Dataset& whole, double share, std::uint64_t seed);

// What a data set that is made to measure needs to know.
struct DataRequest {
  std::vector<Field> inputs;  // the model's that hold samples, by name
  TensorType label;           // of one sample: int64[] for class indices, else dense
  std::int64_t classes = 0;   // of class indices
  std::optional<std::int64_t> label_pad;  // stands where a sample has no label: what the loss ignores
  std::int64_t label_rows = 1;  // labels may lie one after another, so many of a sample
  std::uint64_t seed = 1;
  // What the model's classes (characters) were called by the data it was trained on: names have these indices again. Data that
  // has others is refused, or, where it is to be trained on, numbered anew.
  std::vector<std::string> class_names;
  // as the data that the model was trained on had them (Dataset::means); used where it is not to train
  std::map<std::string, double> means;
  bool training = true;
  // The parts that are wanted, the first that there is; empty: all. Files of others are not read.
  std::vector<std::string> parts;
  std::vector<Field> constants;  // the model's inputs that hold no samples: all of each; of an undefined type: not known
};

// One row a kind of data set, for --help and errors.
struct DataSource {
  std::string_view name;   // "idx"
  std::string_view usage;  // "idx:DIR"
  std::string_view help;
  Splits (*open)(const struct Spec& spec, const DataRequest& request);
};
std::span<const DataSource> data_sources();

// Whether `part` (train, validation, test) is to be opened: `there` tells which parts the data has.
bool wants_part(const DataRequest& request, std::string_view part, const std::function<bool(std::string_view)>& there);

// Opens NAME:ARGUMENT[,KEY=VALUE...]. Fails (usage) on an unknown name, (data) on bad contents, (io) on unreadable files.
Splits open_data(std::string_view spec, const DataRequest& request = {});

Splits open_idx(const Spec& spec, const DataRequest& request);
Splits open_cifar10(const Spec& spec, const DataRequest& request);
Splits open_csv(const Spec& spec, const DataRequest& request);
Splits open_npy_files(const Spec& spec, const DataRequest& request);
Splits open_text(const Spec& spec, const DataRequest& request);
Splits open_json_lines(const Spec& spec, const DataRequest& request);
Splits open_webdataset(const Spec& spec, const DataRequest& request);
Splits open_tfrecord(const Spec& spec, const DataRequest& request);
Splits open_parquet(const Spec& spec, const DataRequest& request);
Splits open_images(const Spec& spec, const DataRequest& request);
Splits open_npz(const Spec& spec, const DataRequest& request);
Splits open_synthetic(const Spec& spec, const DataRequest& request);
Splits open_random(const Spec& spec, const DataRequest& request);

}  // namespace tandem
