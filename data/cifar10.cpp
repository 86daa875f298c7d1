// CIFAR-10's binary batches: records of one label byte and 3 x 32 x 32 pixel bytes.
// Source: the data set's page, cs.toronto.edu/~kriz/cifar.html.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/spec.h"
#include "data/dataset.h"

namespace tandem {
namespace {

constexpr std::int64_t pixels = 3 * 32 * 32, record = 1 + pixels;

// Empty where it is not there.
std::filesystem::path find_file(const Spec& spec, const std::string& file) {
  std::filesystem::path folder = spec.argument;
  if (std::filesystem::is_directory(folder / "cifar-10-batches-bin")) folder /= "cifar-10-batches-bin";
  for (const char* ending : {"", ".gz"})
    if (const auto path = folder / (file + ending); std::filesystem::exists(path)) return path;
  return {};
}

std::unique_ptr<Dataset> read_batches(const Spec& spec, std::string_view part, const std::vector<std::string>& files) {
  std::vector<std::byte> all;
  for (const std::string& file : files) {
    auto path = find_file(spec, file);
    if (path.empty()) path = std::filesystem::path(spec.argument) / file;
    const std::vector<std::byte> bytes = read_maybe_gzip(path);
    if (bytes.empty() || bytes.size() % record != 0)
      fail(ExitCode::data, path.string(), ": ", bytes.size(), " bytes, expected a multiple of ", record);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  const std::int64_t n = static_cast<std::int64_t>(all.size()) / record;
  Tensor images(TensorType{DType::uint8, {n, 3, 32, 32}}), labels(TensorType{DType::uint8, {n}});
  const auto image = images.write(), label = labels.write();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto from = all.begin() + i * record;
    label[static_cast<std::size_t>(i)] = *from;
    std::copy_n(from + 1, pixels, image.begin() + i * pixels);
  }
  auto data = std::make_unique<MemoryDataset>(concat("cifar10:", spec.argument, ", ", part));
  data->add({.name = "images", .axes = Axes::channels_first, .pixels = true}, std::move(images));
  data->add({.name = "labels", .role = Role::label}, std::move(labels));
  return data;
}

}  // namespace

Splits open_cifar10(const Spec& spec, const DataRequest& request) {
  spec.allow({}, "data");
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'cifar10' needs a folder: cifar10:DIR");
  const std::vector<std::string> train{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  const std::vector<std::string> test{"test_batch.bin"};
  const auto there = [&](std::string_view part) {
    const std::vector<std::string>& files = part == "train" ? train : test;
    return (part == "train" || part == "test") && !find_file(spec, files[0]).empty();
  };
  Splits splits;
  if (wants_part(request, "train", there)) splits.train = read_batches(spec, "train", train);
  if (wants_part(request, "test", there)) splits.test = read_batches(spec, "test", test);
  return splits;
}

}  // namespace tandem
