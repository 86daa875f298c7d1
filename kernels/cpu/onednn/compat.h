// oneDNN 2.x and 3.x behind one set of names: everything that differs between them stands here. Functions that make
// primitive descriptors return an empty one (`!pd`) where the library has no implementation.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// How a blocked descriptor lies in memory.
struct Blocking {
  Dims dims, padded, strides;         // strides of the outer loops
  std::vector<std::int64_t> blocks;   // inner blocks, outermost first
  std::vector<std::int64_t> axes;     // the axis of each
};

namespace compat {

template <class F>
auto or_empty(F&& make) -> decltype(make()) {
  try {
    return make();
  } catch (const dnnl::error&) {
    return {};
  }
}

// Before 2.3, BatchNormalization takes scale and shift as one tensor [2, C].
#if DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 3
inline constexpr bool scale_and_shift_are_joined = true;
inline constexpr bool padding_may_be_left = true;  // in blocks, by reorders and transposed convolutions (seen in 2.2.4)
inline dnnl::normalization_flags use_scale_and_shift() { return dnnl::normalization_flags::use_scale_shift; }
inline constexpr int arg_scale = DNNL_ARG_SCALE_SHIFT, arg_shift = 0;
inline constexpr int arg_diff_scale = DNNL_ARG_DIFF_SCALE_SHIFT, arg_diff_shift = 0;
#else
inline constexpr bool scale_and_shift_are_joined = false;
inline constexpr bool padding_may_be_left = false;
inline dnnl::normalization_flags use_scale_and_shift() {
  return dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
}
inline constexpr int arg_scale = DNNL_ARG_SCALE, arg_shift = DNNL_ARG_SHIFT;
inline constexpr int arg_diff_scale = DNNL_ARG_DIFF_SCALE, arg_diff_shift = DNNL_ARG_DIFF_SHIFT;
#endif

#if DNNL_VERSION_MAJOR >= 3

using Pooling = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;
using PoolingHint = dnnl::pooling_forward::primitive_desc;
inline constexpr bool batch_normalization_backward_reads_shift = false;

template <class Primitive, class... Args>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Args&... args) {
  return or_empty([&] { return typename Primitive::primitive_desc(engine, args..., attr, true); });
}
template <class Primitive, class Hint, class... Args>
auto describe_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Hint& hint, const Args&... args) {
  return or_empty([&] { return typename Primitive::primitive_desc(engine, args..., hint, attr, true); });
}

inline auto batch_normalization(const dnnl::engine& e, const dnnl::primitive_attr& attr, dnnl::prop_kind kind, const Desc& x,
                                float epsilon, dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(e, attr, kind, x, x, epsilon, flags);
}
template <class Hint>
auto batch_normalization_backward(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Hint& hint, const Desc& x,
                                  float epsilon, dnnl::normalization_flags flags) {
  return describe_backward<dnnl::batch_normalization_backward>(e, attr, hint, dnnl::prop_kind::backward, x, x, x, epsilon, flags);
}
inline auto lrn(const dnnl::engine& e, const dnnl::primitive_attr& attr, dnnl::prop_kind kind, const Desc& x, std::int64_t size,
                float alpha, float beta, float k) {
  return describe<dnnl::lrn_forward>(e, attr, kind, dnnl::algorithm::lrn_across_channels, x, x, size, alpha, beta, k);
}
template <class Hint>
auto lrn_backward(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Hint& hint, const Desc& x, std::int64_t size,
                  float alpha, float beta, float k) {
  return describe_backward<dnnl::lrn_backward>(e, attr, hint, dnnl::algorithm::lrn_across_channels, x, x, x, size, alpha, beta, k);
}
inline dnnl::primitive_desc_base concat(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Desc& y, int axis,
                                        const std::vector<Desc>& x) {
  return or_empty([&] { return dnnl::concat::primitive_desc(e, y, axis, x, attr); });
}
inline void append_relu(dnnl::post_ops& ops) { ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f); }
inline dnnl::memory::data_type data_type_of(const Desc& d) { return d.get_data_type(); }

inline std::optional<Blocking> blocking_of(const Desc& d) {
  if (d.get_format_kind() != dnnl::memory::format_kind::blocked || d.get_submemory_offset() != 0) return std::nullopt;
  for (const auto offset : d.get_padded_offsets())
    if (offset != 0) return std::nullopt;
  return Blocking{d.get_dims(), d.get_padded_dims(), d.get_strides(), d.get_inner_blks(), d.get_inner_idxs()};
}

#else

inline constexpr bool batch_normalization_backward_reads_shift = true;

// The first version of pooling in 2.x has no dilation; only it has the fast kernels.
struct Pooling;
struct PoolingBackward;
struct PoolingHint {
  dnnl::pooling_forward::primitive_desc plain;
  dnnl::pooling_v2_forward::primitive_desc dilated;
  bool is_dilated = false;
  dnnl::primitive_desc_base base() const { return is_dilated ? dnnl::primitive_desc_base(dilated) : dnnl::primitive_desc_base(plain); }
  operator dnnl::primitive_desc_base() const { return base(); }
  explicit operator bool() const { return static_cast<bool>(base()); }
  Desc src_desc() const { return base().src_desc(); }
  Desc dst_desc() const { return base().dst_desc(); }
  Desc workspace_desc() const { return base().workspace_desc(); }
};

// 2.2.4 keeps pointers into the attributes of a descriptor it has copied and destroyed, in all that computes by batches of
// matrix products ("brgemm"): primitives made of them crash now and then. The next implementation serves.
template <class Pd>
Pd sound(Pd pd) {
  if constexpr (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 3)
    while (pd && std::string_view(pd.impl_info_str()).starts_with("brg"))
      if (!pd.next_impl()) return {};
  return pd;
}

template <class Primitive, class... Args>
auto describe_2(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Args&... args) {
  return or_empty([&] { return sound(typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine, true)); });
}
inline bool dilated(const Dims& dilations) {
  for (const auto d : dilations)
    if (d != 0) return true;
  return false;
}
template <class Primitive, class... Args>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Args&... args) {
  if constexpr (std::is_same_v<Primitive, Pooling>) {
    return [&](dnnl::prop_kind kind, dnnl::algorithm algorithm, const Desc& x, const Desc& y, const Dims& strides,
               const Dims& kernel, const Dims& dilations, const Dims& begin, const Dims& end) {
      PoolingHint pd;
      pd.is_dilated = dilated(dilations);
      if (pd.is_dilated)
        pd.dilated = describe_2<dnnl::pooling_v2_forward>(engine, attr, kind, algorithm, x, y, strides, kernel, dilations, begin, end);
      else
        pd.plain = describe_2<dnnl::pooling_forward>(engine, attr, kind, algorithm, x, y, strides, kernel, begin, end);
      return pd;
    }(args...);
  } else {
    return describe_2<Primitive>(engine, attr, args...);
  }
}
template <class Primitive, class Hint, class... Args>
auto describe_backward_2(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Hint& hint, const Args&... args) {
  return or_empty([&] { return sound(typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine, hint, true)); });
}
template <class Primitive, class Hint, class... Args>
auto describe_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attr, const Hint& hint, const Args&... args) {
  if constexpr (std::is_same_v<Primitive, PoolingBackward>) {
    return [&](dnnl::algorithm algorithm, const Desc& dx, const Desc& dy, const Dims& strides, const Dims& kernel,
               const Dims& dilations, const Dims& begin, const Dims& end) -> dnnl::primitive_desc_base {
      if (hint.is_dilated)
        return describe_backward_2<dnnl::pooling_v2_backward>(engine, attr, hint.dilated, algorithm, dx, dy, strides, kernel, dilations,
                                                              begin, end);
      return describe_backward_2<dnnl::pooling_backward>(engine, attr, hint.plain, algorithm, dx, dy, strides, kernel, begin, end);
    }(args...);
  } else {
    return describe_backward_2<Primitive>(engine, attr, hint, args...);
  }
}

inline auto batch_normalization(const dnnl::engine& e, const dnnl::primitive_attr& attr, dnnl::prop_kind kind, const Desc& x,
                                float epsilon, dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(e, attr, kind, x, epsilon, flags);
}
template <class Hint>
auto batch_normalization_backward(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Hint& hint, const Desc& x,
                                  float epsilon, dnnl::normalization_flags flags) {
  return describe_backward<dnnl::batch_normalization_backward>(e, attr, hint, dnnl::prop_kind::backward, x, x, epsilon, flags);
}
inline auto lrn(const dnnl::engine& e, const dnnl::primitive_attr& attr, dnnl::prop_kind kind, const Desc& x, std::int64_t size,
                float alpha, float beta, float k) {
  return describe<dnnl::lrn_forward>(e, attr, kind, dnnl::algorithm::lrn_across_channels, x, size, alpha, beta, k);
}
template <class Hint>
auto lrn_backward(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Hint& hint, const Desc& x, std::int64_t size,
                  float alpha, float beta, float k) {
  return describe_backward<dnnl::lrn_backward>(e, attr, hint, dnnl::algorithm::lrn_across_channels, x, x, size, alpha, beta, k);
}
inline dnnl::primitive_desc_base concat(const dnnl::engine& e, const dnnl::primitive_attr& attr, const Desc& y, int axis,
                                        const std::vector<Desc>& x) {
  return or_empty([&] { return dnnl::concat::primitive_desc(y, axis, x, e, attr); });
}
inline void append_relu(dnnl::post_ops& ops) { ops.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f); }
inline dnnl::memory::data_type data_type_of(const Desc& d) { return d.data_type(); }

inline std::optional<Blocking> blocking_of(const Desc& d) {
  const dnnl_memory_desc_t& m = d.data;
  if (m.format_kind != dnnl_blocked || m.offset0 != 0 || m.extra.flags != 0) return std::nullopt;
  for (int i = 0; i < m.ndims; ++i)
    if (m.padded_offsets[i] != 0) return std::nullopt;
  const dnnl_blocking_desc_t& b = m.format_desc.blocking;
  const auto list = [](const dnnl_dim_t* p, int n) { return Dims(p, p + n); };
  return Blocking{list(m.dims, m.ndims), list(m.padded_dims, m.ndims), list(b.strides, m.ndims), list(b.inner_blks, b.inner_nblks),
                  list(b.inner_idxs, b.inner_nblks)};
}

#endif

}  // namespace compat
}  // namespace tandem::onednn
