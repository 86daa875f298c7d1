// A first byte that chooses what the model wants, then any bytes as a Parquet file: opened, and its first samples read.
#include <algorithm>

#include "base/spec.h"
#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate_thrift.h"

namespace tandem::fuzz {
namespace {

constexpr std::int64_t most_samples = 64;

void read(const Dataset& data) {
  for (std::size_t f = 0; f < data.fields().size(); ++f)
    for (std::int64_t i = 0; i < std::min(data.size(), most_samples); ++i) {
      const Field& field = data.fields()[f];
      std::vector<std::byte> bytes(static_cast<std::size_t>(field.sample.shape.elements()) * size_of(field.sample.dtype));
      if (field.encoded)
        data.encoded(f, i, bytes);
      else
        data.read(f, {&i, 1}, bytes.data());
    }
}

std::uint32_t length_at(std::string_view s) {
  std::uint32_t v = 0;
  for (std::size_t i = 0; i < 4; ++i) v |= std::uint32_t{static_cast<unsigned char>(s[i])} << (8 * i);
  return v;
}

// The footer, or the header of the first column's first page.
std::string mutate(std::string file, Random& random) {
  constexpr std::size_t begin = 4, tail = 8;
  const std::size_t length = file.size() < begin + tail ? 0 : length_at(std::string_view(file).substr(file.size() - tail));
  if (length == 0 || length > file.size() - begin - tail || random.one_in(8)) {
    mutate_bytes(file, random);
    return file;
  }
  std::string pages = file.substr(begin, file.size() - begin - tail - length), footer = file.substr(begin + pages.size(), length), changed;
  std::string_view rest = footer;
  if (random.one_in(3)) {
    if (rest = pages; mutate_thrift(rest, changed, random)) pages = changed + std::string(rest);
    if (random.one_in(4)) mutate_bytes(pages, random);
  } else if (mutate_thrift(rest, changed, random)) {
    footer = changed;
  }
  std::string end;
  for (int i = 0; i < 4; ++i) end += static_cast<char>(footer.size() >> (8 * i));
  return "PAR1" + pages + footer + end + "PAR1";
}

}  // namespace
}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    if (size < 1) return;
    const unsigned kind = data[0];
    DataRequest request{.inputs = {{.name = "x", .sample = {kind & 1 ? DType::int64 : DType::float32, kind & 2 ? Shape{4} : Shape{}}}},
                        .label = {DType::int64, {}},
                        .classes = 10};
    request.training = kind & 4;
    const std::filesystem::path file = fuzz::write("x.parquet", fuzz::text_of(data + 1, size - 1));
    const Splits splits = open_parquet(parse_spec(concat("parquet:", file.string(), kind & 8 ? ",missing=0,pad=0" : "")), request);
    fuzz::read(*splits.train);
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  const std::string text = fuzz::text_of(data, size),
                    head(1, static_cast<char>(size == 0 || random.one_in(16) ? random.below(16) : data[0]));
  return fuzz::give(head + fuzz::mutate(text.substr(std::min<std::size_t>(1, size)), random), data, room);
}
