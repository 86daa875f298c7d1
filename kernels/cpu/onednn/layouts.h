// Layouts as oneDNN's memory descriptors and back. Only packed, blocked descriptors have a Layout: what oneDNN keeps to
// itself (weights transformed by Winograd or packed for RNNs) has none, and is declined.
#pragma once
#include <optional>

#include "graph/layout.h"
#include "kernels/cpu/onednn/compat.h"
#include "kernels/kernel.h"

namespace tandem::onednn {

dnnl::memory::data_type data_type_of(DType dtype);  // undef for what no kernel here computes in

// A descriptor by strides. Those of axes of one say nothing of the memory, and the library's cache of primitives takes descriptors
// that differ in them for the same; yet kernels for transposed operands go by them. So they are always the same: such an axis lies
// right outside of the next longer one, innermost where there is none.
Desc strided(const Dims& dims, dnnl::memory::data_type type, Dims strides);

// `any` gives a descriptor that lets oneDNN choose. Nothing where the library has no such layout.
std::optional<Desc> to_desc(const Shape& shape, const Layout& layout, DType dtype = DType::float32);
inline std::optional<Desc> to_desc(const Operand& operand, const Layout& layout) { return to_desc(operand.shape, layout, operand.dtype); }
std::optional<Layout> to_layout(const Desc& desc);

// Filters. ONNX holds [M, C/group, ...] (ConvTranspose [C, M/group, ...]: `transposed`); oneDNN wants [M, C, ...] for
// one group and [group, M/group, C/group, ...] for several. Where blocks do not straddle groups both name the same memory.
struct Filter {
  Shape shape;  // ONNX's
  std::int64_t group = 1;
  bool transposed = false;
  DType dtype = DType::float32;
  Dims dims() const;  // oneDNN's
};
std::optional<Desc> to_desc(const Filter& filter, const Layout& layout);
std::optional<Layout> to_layout(const Filter& filter, const Desc& desc);

}  // namespace tandem::onednn
