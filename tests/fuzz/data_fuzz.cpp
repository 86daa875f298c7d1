// A first byte that chooses a row of `formats` and one that chooses what the model wants, then any bytes as a data file: opened as
// --data does, hashed, read, checked, and fed with every preprocessing.
#include <zlib.h>

#include <algorithm>
#include <numeric>

#include "base/spec.h"
#include "tests/fuzz/data_formats.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/feed/feed.h"

namespace tandem::fuzz {
namespace {

constexpr std::int64_t most_samples = 64;

const DataFormat& format_of(std::size_t number) {
  return data_formats()[number % data_formats().size()];
}

DataRequest request_of(unsigned kind) {
  const Shape inputs[] = {{4}, {1, 4, 4}, {4, 4, 1}, {3, 32, 32}};
  DataRequest request{.inputs = {{.name = "x", .sample = {DType::float32, inputs[kind % 4]}}}, .parts = {"test"}};
  if (kind & 4) request.inputs.push_back({.name = "z", .sample = {DType::int64, {2}}, .indices = {.lowest = -9, .count = 9}});
  request.label = kind & 8 ? TensorType{DType::float32, {3}} : TensorType{DType::int64, {}};
  request.classes = kind & 8 ? 0 : 10;
  request.label_rows = kind & 16 ? 2 : 1;
  if (kind & 32) request.inputs[0].sample.dtype = DType::int64;
  return request;
}

void feed(const Dataset& data, const DataRequest& request, unsigned kind) {
  fingerprint(data);
  data.describe(0);
  std::vector<FeedTarget> targets;
  for (const Field& f : request.inputs) targets.push_back({f.name, f.sample, false, f.indices});
  targets.push_back({"labels", request.label, true, {.lowest = 0, .count = request.classes}});
  Preprocess preprocess;
  if (kind & 64) parse_normalize(preprocess, "0.5,0.25");
  if (kind & 128) parse_augment(preprocess, "crop=2,flip");
  Feed feed(data, targets, preprocess, 1);
  for (std::size_t t = 0; t < targets.size(); ++t)
    if (feed.has(t)) feed.check_values(t);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min(data.size(), most_samples)));
  std::iota(samples.begin(), samples.end(), 0);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> to;
  for (const FeedTarget& t : targets)
    to.push_back(
        memory.emplace_back(samples.size() * static_cast<std::size_t>(t.sample.shape.elements()) * size_of(t.sample.dtype)).data());
  feed.fill(samples, 1, true, to);
}

void mutate_member(const std::string&, std::string& contents, Random& random) {
  mutate_npy(contents, random);
}

std::string gunzip(const std::string& bytes) {
  std::string out(1 << 16, '\0');
  z_stream z{};
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return {};
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  inflate(&z, Z_FINISH);
  out.resize(out.size() - z.avail_out);
  inflateEnd(&z);
  return out;
}

std::string mutate(std::string bytes, Random& random) {
  if (bytes.size() < 2 || random.one_in(16)) {
    mutate_bytes(bytes, random);
    return bytes;
  }
  if (random.one_in(4)) bytes[1] = static_cast<char>(random.below(256));
  const std::string head = bytes.substr(0, 2);
  const DataFormat& format = format_of(static_cast<unsigned char>(head[0]));
  bytes.erase(0, 2);
  switch (format.coding) {
    case Coding::npy: mutate_npy(bytes, random); break;
    case Coding::zip: mutate_zip(bytes, mutate_member, random); break;
    case Coding::plain: mutate_bytes(bytes, random); break;
    case Coding::gzip:
      if (std::string inner = gunzip(bytes); !inner.empty() && !random.one_in(4)) {
        mutate_bytes(inner, random);
        bytes = gzip(inner);
      } else {
        mutate_bytes(bytes, random);
      }
  }
  return head + bytes;
}

}  // namespace
}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    if (size < 2) return;
    const fuzz::DataFormat& format = fuzz::format_of(data[0]);
    const unsigned kind = data[1];
    const DataRequest request = fuzz::request_of(kind);
    if (!format.beside.empty()) fuzz::write(format.name + "/" + format.beside, format.beside_contents);
    const std::filesystem::path file = fuzz::write(format.name + "/" + format.file, fuzz::text_of(data + 2, size - 2));
    const auto read = [&](const std::unique_ptr<Dataset>& part) {
      if (part) fuzz::run([&] { fuzz::feed(*part, request, kind); });
    };
    const Splits splits = open_data(concat(format.source, format.source.empty() ? "" : ":",
                                           (format.source == "idx" || format.source == "cifar10" ? file.parent_path() : file).string()),
                                    request);
    for (const auto* part : {&splits.train, &splits.validation, &splits.test}) read(*part);
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  return fuzz::give(fuzz::mutate(fuzz::text_of(data, size), random), data, room);
}
