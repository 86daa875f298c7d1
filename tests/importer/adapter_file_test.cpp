// Files of adapters that were made to take much.
#include "importer/message/adapter_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

// The list of the file's only parameter, which it then names `count` times.
std::string repeated(std::string bytes, std::uint32_t count) {
  const auto at = [&](std::size_t i) {
    std::uint32_t v = 0;
    std::memcpy(&v, bytes.data() + i, sizeof v);
    return v;
  };
  const std::size_t root = at(0), list = root + 16 + at(root + 16), first = list + 4;
  const std::uint32_t distance = at(first);
  std::string offsets;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t offset = distance + 4 * (count - 1 - i);
    offsets.append(reinterpret_cast<const char*>(&offset), sizeof offset);
  }
  std::memcpy(bytes.data() + list, &count, sizeof count);
  return bytes.replace(first, 4, offsets);
}

TEST(AdapterFile, TensorsInTheSameBytesAreCounted) {
  const std::string bytes = adapter_bytes({{.name = "a", .tensor = Tensor(TensorType{DType::float32, {64, 64}})}});
  EXPECT_EQ(parse_adapter(repeated(bytes, 1)).size(), 1u);
  EXPECT_EQ(parse_adapter(repeated(bytes, 2)).size(), 2u);  // as a builder writes what is alike
  try {
    parse_adapter(repeated(bytes, 2000));
    ADD_FAILURE() << "2,000 tensors of a file of " << bytes.size() << " bytes";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("tensors take more than twice the "), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem
