#include <gtest/gtest.h>

#include "graph/tensor.h"

namespace tandem {
namespace {

// A view reads another's memory, keeps its owner as long as a copy of it lives, and never writes there.
TEST(TensorView, ReadsAndNeverWritesAnothersMemory) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto* const data = reinterpret_cast<const std::byte*>(owner->data());
  Tensor view = Tensor::view({DType::float32, Shape{2, 3}}, data, owner);
  EXPECT_EQ(view.bytes().data(), data);
  EXPECT_EQ(view.elements(), 6);
  EXPECT_TRUE(view == Tensor::of(Shape{2, 3}, std::span<const float>(*owner)));
  const Tensor flat = view.reshaped(Shape{6});
  EXPECT_EQ(flat.bytes().data(), data);
  view.write<float>()[0] = 7;
  EXPECT_EQ(view.values<float>()[0], 7);
  EXPECT_EQ((*owner)[0], 1);
  EXPECT_EQ(flat.values<float>()[0], 1);
  EXPECT_EQ(owner.use_count(), 2);
  view = {};
  EXPECT_EQ(owner.use_count(), 2) << "of the copy";
}

TEST(TensorView, IsLetGoWithItsLastCopy) {
  const auto owner = std::make_shared<int>(0);
  const float value = 1;
  {
    const Tensor view = Tensor::view({DType::float32, Shape{1}}, reinterpret_cast<const std::byte*>(&value), owner);
    const Tensor copy = view;
    EXPECT_EQ(owner.use_count(), 2);
    EXPECT_EQ(copy.cast(DType::float64).values<double>()[0], 1);
  }
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_THROW(Tensor::view({DType::string, Shape{1}}, nullptr), Error);
}

// A tensor's own memory is written to where it lies.
TEST(TensorView, OwnValuesAreNotCopied) {
  Tensor own(TensorType{DType::int8, Shape{4}});
  const std::byte* const before = own.bytes().data();
  EXPECT_EQ(own.write().data(), before);
  const Tensor other = own;
  EXPECT_NE(own.write().data(), before);
  EXPECT_EQ(other.bytes().data(), before);
}

}  // namespace
}  // namespace tandem
