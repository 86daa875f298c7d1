#include "runtime/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

std::string file_of(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, bytes.size());
  return bytes + header + std::string(data, 'x');
}

TEST(Safetensors, KeepNamesTypesAndValues) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors{{"w", Tensor::of<float>({2, 1}, {1.5F, -2})},
                                         {"no \xff text", Tensor::of<std::int64_t>({}, {INT64_MIN})},
                                         {"empty", Tensor(TensorType{DType::bfloat16, {0, 3}})}};
  write_safetensors(folder / "a", {{"key", "value"}}, [&](const Session::Visit& visit) {
    for (const NamedTensor& t : tensors) visit(t);
  });
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"key", "value"}}));
  EXPECT_EQ(file.entries().size(), tensors.size());
  for (const NamedTensor& t : tensors) EXPECT_EQ(file.read(t.name), t.tensor) << t.name;
  expect_error(ExitCode::data, "holds no tensor 'v'", [&] { file.read("v"); });
  std::uint64_t length = 0;
  std::memcpy(&length, read_file(folder / "a").data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
}

struct Row {
  const char* name;
  std::string bytes;
  std::string says;
};
class BrokenSafetensors : public testing::TestWithParam<Row> {};
TEST_P(BrokenSafetensors, AreRefused) {
  const TemporaryFolder folder;
  folder.write("a", GetParam().bytes);
  expect_error(ExitCode::data, GetParam().says, [&] { SafetensorsFile(folder / "a"); });
}
std::string one(const std::string& entry) { return "{\"w\":{" + entry + "}}"; }
INSTANTIATE_TEST_SUITE_P(
    Rows, BrokenSafetensors,
    testing::Values(Row{"empty", "", "no safetensors file"}, Row{"short", "abc", "no safetensors file"},
                    Row{"long_header", std::string(8, '\x7f') + "{}", "no safetensors file"}, Row{"no_json", file_of("{", 0), "is damaged"},
                    Row{"list", file_of("[]", 0), "is damaged"},
                    Row{"no_type", file_of(one("\"shape\":[1],\"data_offsets\":[0,4]"), 4), "dtype"},
                    Row{"other_type", file_of(one("\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,4]"), 4), "dtype F8 is not known"},
                    Row{"negative", file_of(one("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4), "dimension of -1"},
                    Row{"huge", file_of(one("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]"), 4), "dimension of"},
                    Row{"one_offset", file_of(one("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4), "two numbers"},
                    Row{"other_size", file_of(one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 8), "expected 8 bytes there"},
                    Row{"behind_the_end", file_of(one("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]"), 4), "at 4 to 8 of 4 bytes"},
                    Row{"before_the_data", file_of(one("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]"), 4), "at -4 to 0"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
