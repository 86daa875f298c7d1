// Tensors of elements of fewer than 8 bits, of which files pack several into a byte, and of floats of 8 bits.
#include "graph/small_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "importer/message/tensor_data.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

constexpr DType all_small[] = {DType::float8e4m3fn, DType::float8e4m3fnuz, DType::float8e5m2, DType::float8e5m2fnuz,
                               DType::uint4,        DType::int4,           DType::float4e2m1, DType::float8e8m0,
                               DType::uint2,        DType::int2,           DType::float6e2m3, DType::float6e3m2};

onnx::TensorProto tensor(const std::string& name, DType type, const std::vector<std::int64_t>& dims) {
  onnx::TensorProto proto = dims_only(name, dims);
  proto.set_data_type(static_cast<int>(type));
  return proto;
}
onnx::TensorProto raw_tensor(const std::string& name, DType type, const std::vector<std::int64_t>& dims, const std::string& bytes) {
  onnx::TensorProto proto = tensor(name, type, dims);
  proto.set_raw_data(bytes);
  return proto;
}
Tensor read(const onnx::TensorProto& proto) {
  ExternalData none;
  return *tensor_of(proto, none);
}

// Field i of a stream of bits, the lowest first.
unsigned field(const std::string& bytes, std::size_t i, int bits) {
  unsigned value = 0;
  for (int b = 0; b < bits; ++b) {
    const std::size_t at = i * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
    value |= (static_cast<unsigned char>(bytes[at / 8]) >> (at % 8) & 1U) << b;
  }
  return value;
}

class SmallTensors : public testing::TestWithParam<DType> {};

TEST_P(SmallTensors, AreWrittenAsTheyWereRead) {
  const DType type = GetParam();
  const int bits = bits_of(type);
  std::mt19937 random(1);
  for (std::int64_t n = 1; n <= 33; ++n) {
    std::string bytes(static_cast<std::size_t>((n * bits + 7) / 8), '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (const auto used = n * bits % 8) bytes.back() = static_cast<char>(static_cast<unsigned char>(bytes.back()) & ((1 << used) - 1));
    const Tensor t = read(raw_tensor("t", type, {n}, bytes));
    ASSERT_EQ(t.type(), (TensorType{type, Shape{n}}));
    const std::vector<double> values = t.to_doubles();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const unsigned code = field(bytes, i, bits);
      const double wanted =
          is_small_integer(type) ? number_of(low_bits(code, type), type) : number_of(static_cast<std::uint8_t>(code), type);
      EXPECT_TRUE(values[i] == wanted || (std::isnan(values[i]) && std::isnan(wanted)))
          << i << " of " << n << ": " << values[i] << ", expected " << wanted;
    }
    onnx::TensorProto again = tensor("t", type, {n});
    store(t, DataForm::raw, again);
    EXPECT_EQ(again.raw_data(), bytes) << n;
    onnx::TensorProto list = tensor("t", type, {n});  // as int32_data has it: a byte of elements of 4 and 2 bits, one element of all others
    if (bits == 6)
      for (std::int64_t i = 0; i < n; ++i) list.add_int32_data(static_cast<int>(field(bytes, static_cast<std::size_t>(i), bits)));
    else
      for (const char c : bytes) list.add_int32_data(static_cast<unsigned char>(c));
    EXPECT_TRUE(std::ranges::equal(read(list).bytes(), t.bytes())) << n;
    EXPECT_THROW(read(raw_tensor("t", type, {n}, bytes + '\0')), Error);
    EXPECT_THROW(read(raw_tensor("t", type, {n + (bits == 6 ? 2 : 8 / bits)}, bytes)), Error);
  }
}

// Two of an odd number of elements beside each other; written, they lie in a file of the output's, byte for byte.
TEST_P(SmallTensors, LieInExternalDataAsTheyAre) {
  const DType type = GetParam();
  const auto length = static_cast<std::int64_t>((7 * bits_of(type) + 7) / 8);
  const auto entries = [&](std::int64_t offset) {
    return std::vector<std::pair<std::string, std::string>>{
        {"location", "data"}, {"offset", std::to_string(offset)}, {"length", std::to_string(length)}};
  };
  std::mt19937 random(2);
  std::string bytes(static_cast<std::size_t>(2 * length), '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 1U);  // no element of any type is infinite or no number
  Model m(25, 13);
  m.input("x", "N,7").output("y");
  for (const auto& [name, offset] : {std::pair{"a", std::int64_t{0}}, {"b", length}}) {
    onnx::TensorProto t = external_tensor(name, {7}, entries(offset));
    t.set_data_type(static_cast<int>(type));
    m.add(t).add(node("Cast", {name}, {concat(name, "/cast")}, {{"to", std::int64_t{1}}}));
  }
  m.add(node("Add", {"x", "a/cast"}, {"h"})).add(node("Mul", {"h", "b/cast"}, {"y"}));
  const TemporaryFolder folder;
  write_file(folder / "data", bytes);
  write_file(folder / "m.onnx", m.bytes());
  const ModelFile file = ModelFile::read(folder / "m.onnx");
  const Graph graph = file.graph({.batch = 2});
  file.write(folder / "out.onnx", {});
  const std::string out = read_whole(folder / "out.onnx.data");
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(read_whole(folder / "out.onnx")));
  for (int i = 0; i < 2; ++i) {
    const onnx::TensorProto& t = proto.graph().initializer(i);
    std::size_t offset = 0;
    for (const auto& entry : t.external_data())
      if (entry.key() == "offset") offset = static_cast<std::size_t>(std::stoll(entry.value()));
    EXPECT_EQ(out.substr(offset, static_cast<std::size_t>(length)),
              bytes.substr(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length)));
    ExternalData data = ExternalData::beside(folder.path());
    EXPECT_TRUE(std::ranges::equal(
        tensor_of(t, data)->bytes(),
        read(raw_tensor("t", type, {7}, bytes.substr(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length)))).bytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SmallTensors, testing::ValuesIn(all_small),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tandem::test
