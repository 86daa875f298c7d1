// Tensors whose values lie elsewhere: when they are read, how much of them, and when they leave the memory.
#include <gtest/gtest.h>

#include "graph/cast_values.h"
#include "graph/tensor.h"
#include "graph/tensor_chunks.h"

namespace tandem {
namespace {

// 0, 1, 2, ... and what was read of it.
class Counting final : public TensorSource {
 public:
  void read(std::span<std::byte> to, std::int64_t offset) const override {
    reads.push_back({offset, std::ssize(to)});
    const std::span<float> values(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(offset / 4 + static_cast<std::int64_t>(i));
  }
  mutable std::vector<std::pair<std::int64_t, std::int64_t>> reads;  // offset, bytes
};
using Reads = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Sourced {
  std::shared_ptr<Counting> source = std::make_shared<Counting>();
  Tensor tensor;
  explicit Sourced(std::int64_t elements) : tensor({DType::float32, Shape{elements}}, source) {}
};

TEST(TensorSource, IsReadWhenValuesAreAskedForAndOnce) {
  const Sourced s(4);
  EXPECT_EQ(s.tensor.elements(), 4);
  EXPECT_EQ(s.tensor.byte_size(), 16);
  EXPECT_FALSE(s.tensor.in_memory());
  EXPECT_EQ(s.source->reads, Reads{});
  const Tensor copy = s.tensor;
  EXPECT_EQ(copy.values<float>()[3], 3.0F);
  EXPECT_EQ(s.tensor.values<float>()[2], 2.0F);
  EXPECT_EQ(s.source->reads, (Reads{{0, 16}}));
  EXPECT_EQ(copy.identity(), s.tensor.identity());
}

TEST(TensorSource, GivesAPartWithoutTheRest) {
  const Sourced s(8);
  std::vector<float> part(2);
  s.tensor.read(std::as_writable_bytes(std::span(part)), 12);
  EXPECT_EQ(part, (std::vector<float>{3, 4}));
  EXPECT_FALSE(s.tensor.in_memory());
  EXPECT_EQ(s.source->reads, (Reads{{12, 8}}));
  EXPECT_THROW(s.tensor.read(std::as_writable_bytes(std::span(part)), 28), Error);
}

TEST(TensorSource, LeavesTheMemoryAndIsReadAgain) {
  const Sourced s(4);
  EXPECT_EQ(s.tensor.values<float>()[1], 1.0F);
  s.tensor.release();
  EXPECT_FALSE(s.tensor.in_memory());
  EXPECT_EQ(s.tensor.values<float>()[1], 1.0F);
  EXPECT_EQ(s.source->reads.size(), 2u);
  const Tensor plain = Tensor::of<float>(Shape{2}, {5, 6});
  plain.release();
  EXPECT_EQ(plain.values<float>()[1], 6.0F);
}

TEST(TensorSource, IsNotWrittenTo) {
  const Sourced s(4);
  Tensor own = s.tensor;
  own.write<float>()[0] = 9;
  own.release();  // it has no source any more
  EXPECT_EQ(own.values<float>()[0], 9.0F);
  EXPECT_EQ(own.values<float>()[3], 3.0F);
  EXPECT_EQ(s.tensor.values<float>()[0], 0.0F);
  Tensor alone({DType::float32, Shape{4}}, std::make_shared<Counting>());  // nobody else has its storage
  alone.write<float>()[0] = 9;
  alone.release();
  EXPECT_EQ(alone.values<float>()[0], 9.0F);
}

TEST(TensorSource, ComesInPiecesUnlessItIsInMemory) {
  const Sourced s(tensor_chunk / 4 + 2);
  Reads pieces;
  const auto note = [&](std::span<const std::byte> bytes, std::int64_t at) { pieces.push_back({at, std::ssize(bytes)}); };
  each_chunk(s.tensor, note);
  EXPECT_EQ(pieces, (Reads{{0, tensor_chunk}, {tensor_chunk, 8}}));
  EXPECT_FALSE(s.tensor.in_memory());
  s.tensor.bytes();
  pieces.clear();
  each_chunk(s.tensor, note);
  EXPECT_EQ(pieces, (Reads{{0, tensor_chunk + 8}}));
}

TEST(TensorSource, IsCastAsItIsRead) {
  const Sourced s(tensor_chunk / 2);  // two pieces
  const Tensor halves = cast_later(s.tensor, DType::float16);
  EXPECT_EQ(halves.type(), (TensorType{DType::float16, s.tensor.shape()}));
  EXPECT_FALSE(halves.in_memory());
  std::vector<std::byte> pieces;
  each_chunk(halves, [&](std::span<const std::byte> bytes, std::int64_t) { pieces.insert(pieces.end(), bytes.begin(), bytes.end()); });
  EXPECT_FALSE(s.tensor.in_memory());
  EXPECT_TRUE(std::ranges::equal(pieces, s.tensor.cast(DType::float16).bytes()));
  EXPECT_TRUE(halves == s.tensor.cast(DType::float16));
}

}  // namespace
}  // namespace tandem
