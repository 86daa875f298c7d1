#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/hash.h"
#include "base/memory.h"
#include "base/spec.h"
#include "data/iterable.h"
#include "data/stream.h"

namespace tandem {

std::string names_of(std::span<const Field> fields) {
  std::string s;
  for (const Field& f : fields) s += concat(s.empty() ? "" : ", ", '\'', f.name, "' ", f.sample);
  return s.empty() ? "none" : s;
}

std::string Dataset::describe(std::int64_t sample) const {
  return concat(name(), ": sample ", sample);
}

std::vector<std::string> class_names(const Dataset& data) {
  std::vector<std::string> first;
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    std::vector<std::string> names = data.classes(f);
    if (!names.empty() && data.fields()[f].role == Role::label) return names;
    if (first.empty()) first = std::move(names);
  }
  return first;
}

void MemoryDataset::add(Field field, Tensor values) {
  const Shape& shape = values.shape();
  if (shape.rank() == 0) fail(ExitCode::data, name_, ": '", field.name, "' is a scalar, expected samples along axis 0");
  if (!fields_.empty() && shape[0] != size_)
    fail(ExitCode::data, name_, ": '", field.name, "' has ", shape[0], " samples, '", fields_[0].name, "' has ", size_);
  size_ = shape[0];
  field.sample = {values.dtype(), Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end()))};
  fields_.push_back(std::move(field));
  values_.push_back(std::move(values));
}

void MemoryDataset::read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const {
  const TensorType& type = fields_[field].sample;
  const auto bytes = static_cast<std::size_t>(type.shape.elements()) * size_of(type.dtype);
  if (bytes == 0) return;
  const std::byte* from = values_[field].bytes().data();
  for (const std::int64_t sample : samples) {
    std::memcpy(to, from + static_cast<std::size_t>(sample) * bytes, bytes);
    to += bytes;
  }
}

void Subset::read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const {
  const TensorType& type = fields()[field].sample;
  const auto bytes = static_cast<std::size_t>(type.shape.elements()) * size_of(type.dtype);
  for (const std::int64_t sample : samples) {
    whole_.read(field, {&samples_[static_cast<std::size_t>(sample)], 1}, to);
    to += bytes;
  }
}

void Dataset::encoded(std::size_t field, std::int64_t, std::vector<std::byte>&) const {
  fail(ExitCode::data, name(), ": field '", fields()[field].name, "' holds no image files");
}

void Subset::encoded(std::size_t field, std::int64_t sample, std::vector<std::byte>& to) const {
  whole_.encoded(field, samples_[static_cast<std::size_t>(sample)], to);
}

std::string Subset::describe(std::int64_t sample) const {
  return whole_.describe(samples_[static_cast<std::size_t>(sample)]);
}

std::pair<std::unique_ptr<Dataset>, std::unique_ptr<Dataset>> hold_out(const Dataset& whole, double share, std::uint64_t seed) {
  if (!(share > 0 && share < 1)) fail(ExitCode::usage, "a validation split of ", share, " is not between 0 and 1");
  need_all_samples(whole, "a validation split");
  std::vector<std::int64_t> order(static_cast<std::size_t>(whole.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Random random(seed, stream_of("hold_out"));
  shuffle(order, random);
  const auto held = std::llround(share * static_cast<double>(whole.size()));
  if (held == 0 || held == whole.size())
    fail(ExitCode::data, whole.name(), ": a validation split of ", share, " leaves ", held, " of ", whole.size(),
         " samples for validation");
  const auto middle = order.begin() + held;
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  return {std::make_unique<Subset>(whole, std::vector(middle, order.end()), whole.name() + ", kept for training"),
          std::make_unique<Subset>(whole, std::vector(order.begin(), middle), whole.name() + ", held out")};
}

std::span<const DataSource> data_sources() {
  static constexpr DataSource rows[] = {
      {"idx", "idx:DIR", "MNIST's files (train-*, t10k-*), .gz too", open_idx},
      {"cifar10", "cifar10:DIR", "CIFAR-10's binary batches", open_cifar10},
      {"images", "images:DIR", "image files, a folder a class, below train/ and val/ (validation/, test/) or at once", open_images},
      {"csv", "csv:FILE[,x=A,B,...][,y=LABEL]", "a table with a header; columns by name (val=, test=, weight=, missing=mean|drop|0, sep=)", open_csv},
      {"npy", "npy:X,Y", "numpy arrays of inputs and labels, also larger than memory (INPUT=FILE, weight=FILE, val=X,Y, test=X,Y)", open_npy_files},
      {"npz", "npz:FILE", "numpy arrays by the inputs' names (or x), y, sample_weight; or x_train, y_train, x_test, ...", open_npz},
      {"text", "text:FILE[,unit=chars]", "windows of bytes or characters, each one's label the next (window=, stride=, val=SHARE, test=)", open_text},
      {"jsonl", "jsonl:FILE", "an object a line, members by name as csv's columns", open_json_lines},
      {"webdataset", "webdataset:FILES", "tar shards: x-{000..009}.tar; members by ending (jpg, png, webp, cls, txt, json, npy) as csv's columns", open_webdataset},
      {"tfrecord", "tfrecord:FILES", "TensorFlow's records of Examples, features by name as csv's columns", open_tfrecord},
      {"parquet", "parquet:FILES", "Parquet files, columns by name as csv's", open_parquet},
      {"synthetic", "synthetic:digits[,train=12000][,test=2000]", "digits drawn with random distortions, 28x28", open_synthetic},
      {"random", "random[,samples=1024]", "noise of the model's input shapes, for benchmarks", open_random},
  };
  return rows;
}

bool wants_part(const DataRequest& request, std::string_view part, const std::function<bool(std::string_view)>& there) {
  if (request.parts.empty()) return true;
  for (const std::string& wanted : request.parts)
    if (there(wanted)) return wanted == part;
  return request.parts[0] == part;  // its absence is the error
}

namespace {

// Files of data sets that are known by their files' names; every other folder holds images.
std::string_view kind_of_folder(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find("-images-idx") != std::string::npos || name.find("-images.idx") != std::string::npos) return "idx";
    if (name == "data_batch_1.bin" || name == "test_batch.bin") return "cifar10";
  }
  return "images";
}

// The kind of data that a path without one names: "photo.jpg" is images:photo.jpg, "table.csv.gz" csv:table.csv.gz. Empty: none by its
// ending, and no folder.
std::string_view kind_of_path(std::filesystem::path path) {
  static constexpr std::pair<std::string_view, std::string_view> kinds[] = {
      {".npz", "npz"}, {".npy", "npy"}, {".csv", "csv"}, {".jsonl", "jsonl"}, {".parquet", "parquet"}, {".txt", "text"}, {".tar", "webdataset"}, {".tfrecord", "tfrecord"},
      {".jpg", "images"}, {".jpeg", "images"}, {".png", "images"}, {".webp", "images"}, {".ppm", "images"}, {".pgm", "images"}};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return kind_of_folder(path);
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(kinds, ending, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kinds) ? "" : found->second;
}

}  // namespace

Splits open_data(std::string_view text, const DataRequest& request) {
  std::vector<std::string> names, bare;
  for (const DataSource& source : data_sources()) {
    names.emplace_back(source.usage);
    bare.emplace_back(source.name);
  }
  if (std::ranges::find(bare, text.substr(0, text.find_first_of(":,"))) == bare.end())
    if (const std::string_view kind = kind_of_path(text); !kind.empty()) return open_data(concat(kind, ':', text), request);
  const Spec spec = parse_spec(text, true);
  for (const DataSource& source : data_sources())
    if (source.name == spec.name) return within_memory([&] { return source.open(spec, request); }, "reading data ", text);
  const std::string near = nearest(spec.name, bare);
  fail(ExitCode::usage, "unknown data '", text, "'", near.empty() ? suggestion("", names) : suggestion(spec.name, bare));
}

std::string fingerprint(const Dataset& data) {
  constexpr std::int64_t most = std::int64_t{64} << 20, chunk = 256;  // bytes, samples
  Hash hash;
  hash.add(names_of(data.fields()));
  hash.add(std::to_string(data.size()));
  for (const auto& [input, value] : data.constants()) {
    hash.add(concat(input, ' ', value.type()));
    hash.add(value.bytes());
  }
  if (data.iterable()) return hash.text();
  std::int64_t sample_bytes = 0;
  constexpr std::int64_t file_bytes = std::int64_t{1} << 16;  // an image's, about
  const auto bytes_of = [](const Field& f) {
    return f.encoded ? file_bytes : f.sample.shape.elements() * static_cast<std::int64_t>(size_of(f.sample.dtype));
  };
  for (const Field& f : data.fields()) sample_bytes += bytes_of(f);
  const std::int64_t wanted = std::min(data.size(), std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, sample_bytes)));
  std::vector<std::int64_t> samples;
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < wanted; i += static_cast<std::int64_t>(samples.size())) {
    samples.clear();
    for (std::int64_t k = i; k < std::min(wanted, i + chunk); ++k)  // k · size / wanted without the product, which may not fit
      samples.push_back(data.size() / wanted * k + data.size() % wanted * k / wanted);
    for (std::size_t f = 0; f < data.fields().size(); ++f) {
      if (data.fields()[f].encoded) {
        for (const std::int64_t sample : samples) {
          data.encoded(f, sample, bytes);
          hash.add(bytes);
        }
        continue;
      }
      bytes.resize(samples.size() * static_cast<std::size_t>(bytes_of(data.fields()[f])));
      data.read(f, samples, bytes.data());
      hash.add(bytes);
    }
  }
  return hash.text();
}

}  // namespace tandem
