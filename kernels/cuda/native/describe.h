// What kernels of our own share: a description filled from a request, and a kernel made of launches.
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/cuda/bodies/types.h"
#include "kernels/kernel.h"

namespace tandem::cuda {

class Libraries;  // cuDNN, cuBLASLt and NVRTC; none of our own kernels needs one
using Descriptions = std::vector<KernelDescription>;

// Memory a kernel is bound to. Absent operands are null.
struct Buffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;
  template <class T>
  const T* in(std::size_t i) const {
    return i < inputs.size() ? reinterpret_cast<const T*>(inputs[i]) : nullptr;
  }
  template <class T>
  T* out(std::size_t i) const {
    return i < outputs.size() ? reinterpret_cast<T*>(outputs[i]) : nullptr;
  }
};

using Launches = std::function<void(void* stream)>;           // queues the kernel's work
using Binder = std::function<Launches(const Buffers& buffers)>;  // puts the addresses in

// What a description's `make` is for a kernel that is only launches.
std::function<std::unique_ptr<Kernel>()> launches(Binder binder);
Launches in_turn(std::vector<Launches> all);

// The request's operands, their open layouts chosen: `layout` for those of its rank, row-major for the others.
// Layouts that are not plain become `layout` too (the planner then reorders). Absent operands stay as they are.
KernelDescription description_of(const KernelRequest& request, std::string_view kernel, const Layout& layout);
KernelDescription row_major_description(const KernelRequest& request, std::string_view kernel);
// The layout of the first operand of that rank whose layout is chosen and plain; else channels last.
Layout layout_of(const KernelRequest& request, int rank);

bool has(const std::vector<Operand>& operands, std::size_t i);
// Strides of the logical axes in a plain layout.
std::vector<std::int64_t> strides_of(const Shape& shape, const Layout& layout);
inline std::vector<std::int64_t> strides_of(const Operand& o) { return strides_of(o.shape, o.layout); }

// Indexes of kernels with strided operands are 32 bits.
bool fits_index(const Operand& operand);
bool fit_index(const KernelDescription& description);

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t align_up(std::int64_t bytes) { return ceil_div(bytes, 256) * 256; }
// Of the device that a kernel is for; an H200's where a request does not say.
inline std::int64_t multiprocessors_of(const KernelOptions& options) { return options.multiprocessors > 0 ? options.multiprocessors : 132; }
// Blocks for `items` items of `per_block`; more items than the blocks have are looped over.
std::int64_t blocks_for(std::int64_t items, std::int64_t per_block);

// visit_storage(dtype, [&]<class T>() {...}) with T = float, double, Half or BFloat16.
bool is_storage_float(DType dtype);
template <class F>
decltype(auto) visit_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::float16: return f.template operator()<Half>();
    case DType::bfloat16: return f.template operator()<BFloat16>();
    default: fail("expected a floating-point type, got ", name_of(dtype));
  }
}

// visit_stored_number(dtype, [&]<class T>() {...}) with T as above or an integer, booleans as bytes; false for others.
template <class F>
bool visit_stored_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8: f.template operator()<std::int8_t>(); return true;
    case DType::int16: f.template operator()<std::int16_t>(); return true;
    case DType::int32: f.template operator()<std::int32_t>(); return true;
    case DType::int64: f.template operator()<std::int64_t>(); return true;
    case DType::boolean:
    case DType::uint8: f.template operator()<std::uint8_t>(); return true;
    case DType::uint16: f.template operator()<std::uint16_t>(); return true;
    case DType::uint32: f.template operator()<std::uint32_t>(); return true;
    case DType::uint64: f.template operator()<std::uint64_t>(); return true;
    default:
      if (!is_float(dtype)) return false;
      visit_storage(dtype, f);
      return true;
  }
}

// visit_bytes(size, [&]<class T>() {...}) with T an unsigned integer of 1, 2, 4 or 8 bytes: for moving elements.
template <class F>
decltype(auto) visit_bytes(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    case 8: return f.template operator()<std::uint64_t>();
    default: fail("elements of ", size, " bytes cannot be moved");
  }
}

}  // namespace tandem::cuda
