// An operator on given shapes by oneDNN in float, and by the native kernels, against the native ones in double, in several layouts.
#pragma once
#include "kernels/cpu/families.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {

// One operator on given shapes. `layout` is that of the inputs named by `laid`, the others are left to the kernel.
struct Case {
  std::string name;
  std::string_view op;
  Attributes attributes;
  std::vector<Shape> inputs, outputs;
  std::int64_t reduction;
  std::vector<int> laid = {0};
};

inline KernelRequest request_of(const Case& c, DType dtype, const Layout& layout) {
  KernelRequest request{c.op, &c.attributes, {}, {}, {.threads = 2}, {}};
  for (const Shape& s : c.inputs) request.inputs.push_back(operand(dtype, s));
  for (const Shape& s : c.outputs) request.outputs.push_back(operand(dtype, s));
  for (const int i : c.laid) request.inputs[static_cast<std::size_t>(i)].layout = layout;
  return request;
}

inline std::vector<Buffer> values_for(const Case& c, DType dtype) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    buffers.emplace_back(operand(dtype, c.inputs[i], Layout::row_major(c.inputs[i].rank())),
                         random_values(c.inputs[i], static_cast<unsigned>(i + 1)));
  return buffers;
}

inline void check(const Case& c, Describe onednn, Describe native, const std::vector<Layout>& layouts) {
  const auto oracle = native(request_of(c, DType::float64, {}));
  ASSERT_EQ(oracle.size(), 1u) << c.name;
  std::vector<Buffer> wanted = run(oracle[0], values_for(c, DType::float64));
  const auto compare = [&](const KernelDescription& d) {
    std::vector<Buffer> got = run(d, values_for(c, DType::float32));
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(error_of(got[i].values(), wanted[i].values()), tolerance(c.reduction))
          << c.name << ": output " << i << " of " << describe_operands(d);
  };
  for (const Layout& layout : layouts) {
    const KernelRequest request = request_of(c, DType::float32, layout);
    const auto descriptions = onednn(request);
    EXPECT_FALSE(descriptions.empty()) << c.name << ": " << c.op << " in " << layout;
    for (const KernelDescription& d : descriptions) {
      compare(d);
      expect_found_again(onednn, request, d);
    }
  }
  for (const Layout& layout : layouts) {
    const KernelRequest request = request_of(c, DType::float32, layout);
    for (const KernelDescription& d : native(request)) {
      compare(d);
      expect_found_again(native, request, d);
    }
  }
}

// Products of 16-bit numbers: of operands that are exact in 16 bits (eight of them significant), rounded once.
inline void check_bfloat16(const Case& c, Describe native) {
  const auto values = [&](DType dtype) {
    std::vector<Buffer> buffers;
    for (Buffer& b : values_for(c, DType::bfloat16))
      buffers.emplace_back(operand(dtype, b.operand().shape, b.operand().layout), b.values());
    return buffers;
  };
  const auto narrow = native(request_of(c, DType::bfloat16, {}));
  ASSERT_EQ(narrow.size(), 1u) << c.name;
  std::vector<Buffer> wanted = run(native(request_of(c, DType::float64, {}))[0], values(DType::float64));
  std::vector<Buffer> got = run(narrow[0], values(DType::bfloat16));
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(error_of(got[i].values(), wanted[i].values()), 0x1p-8 + tolerance(c.reduction))
        << c.name << ": output " << i << " of " << describe_operands(narrow[0]);
}

inline const Layout any, ab("ab"), abcd("abcd"), acdb("acdb"), blocks("aBcd16b");

}  // namespace tandem::dense_tests
