// Tensors of the C API: views, and DLPack's.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tandem/c.h"
#include "tests/api/c_helpers.h"

namespace tandem {
namespace {

TEST(CTensor, ViewsMemoryAndLendsIt) {
  int released = 0;
  const std::int64_t dims[] = {2, 3};
  std::vector<float> values(6, 1);
  tandem_tensor* t = nullptr;
  OK(tandem_tensor_view(
      TANDEM_FLOAT32, 2, dims, values.data(), [](void* c) { ++*static_cast<int*>(c); }, &released, &t));
  EXPECT_EQ(tandem_tensor_data(t), values.data());
  EXPECT_EQ(tandem_tensor_dtype(t), TANDEM_FLOAT32);
  void* lent = nullptr;
  OK(tandem_tensor_to_dlpack(t, &lent));
  tandem_tensor* back = nullptr;
  OK(tandem_tensor_from_dlpack(lent, &back));
  EXPECT_EQ(tandem_tensor_data(back), values.data());
  EXPECT_EQ(tandem_tensor_dims(back)[1], 3);
  static_cast<float*>(tandem_tensor_write(t))[0] = 5;  // of a copy
  EXPECT_EQ(values[0], 1);
  EXPECT_NE(tandem_tensor_data(t), values.data());
  tandem_tensor_free(t);
  EXPECT_EQ(released, 0);
  tandem_tensor_free(back);
  EXPECT_EQ(released, 1);
  const std::int64_t wrong[] = {2, -3};
  FAILS(tandem_tensor_view(TANDEM_FLOAT32, 2, wrong, values.data(), nullptr, nullptr, &t), TANDEM_USAGE,
        "axis 1 of a tensor has the size -3");
  FAILS(tandem_tensor_view(99, 2, dims, values.data(), nullptr, nullptr, &t), TANDEM_USAGE, "element type 99");
  FAILS(tandem_tensor_view(TANDEM_FLOAT32, 2, dims, nullptr, nullptr, nullptr, &t), TANDEM_USAGE, "data is null");
  const auto* const odd = reinterpret_cast<const std::byte*>(values.data()) + 1;
  FAILS(tandem_tensor_view(TANDEM_FLOAT32, 2, dims, odd, nullptr, nullptr, &t), TANDEM_USAGE, "not aligned");
}

// As https://dmlc.github.io/dlpack has it.
struct DlPack {
  void* data;
  std::int32_t device_type, device_id, rank;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t *dims, *strides;
  std::uint64_t offset;
  void* context;
  void (*deleter)(DlPack* self);
};

TEST(CTensor, RefusesWhatDLPackHasAndTandemNot) {
  static int deleted = 0;
  deleted = 0;
  std::vector<float> x(10);
  std::int64_t dims[] = {2, 3}, rows[] = {3, 1}, columns[] = {1, 2};
  const DlPack good{x.data(), 1, 0, 2, 2, 32, 1, dims, rows, 16, nullptr, [](DlPack*) { ++deleted; }};
  DlPack given = good;
  tandem_tensor* t = nullptr;
  OK(tandem_tensor_from_dlpack(&given, &t));
  EXPECT_EQ(tandem_tensor_data(t), x.data() + 4);
  EXPECT_EQ(deleted, 0);
  tandem_tensor_free(t);
  EXPECT_EQ(deleted, 1);
  given = good, given.strides = columns;
  FAILS(tandem_tensor_from_dlpack(&given, &t), TANDEM_USAGE, "a tensor of float32[2,3] that is not row-major: copy it first");
  given = good, given.device_type = 2;
  FAILS(tandem_tensor_from_dlpack(&given, &t), TANDEM_USAGE, "device type 2, expected a CPU's memory");
  given = good, given.lanes = 4;
  FAILS(tandem_tensor_from_dlpack(&given, &t), TANDEM_USAGE, "element type 2 of 32 bits in 4 lanes");
  EXPECT_EQ(deleted, 1) << "what was refused is the caller's";
}

}  // namespace
}  // namespace tandem
