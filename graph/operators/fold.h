// Constant folding on host tensors, for shape arithmetic: small tensors of int32, int64, float32, float64, boolean.
// Other types are left unfolded.
#pragma once
#include <cmath>

#include "graph/operators/rules.h"

namespace tandem {

using Folded = std::optional<std::vector<Tensor>>;

// visit_foldable(dtype, [&]<class T>() -> Folded { ... }); nothing for types that are not folded.
template <class F>
Folded visit_foldable(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    default: return std::nullopt;
  }
}

// The same with booleans, which are moved and compared.
template <class F>
Folded visit_foldable_or_boolean(DType dtype, F&& f) {
  return dtype == DType::boolean ? f.template operator()<bool>() : visit_foldable(dtype, f);
}

// Element numbers of a tensor of `from` that lie under each element of its broadcast `to`, in row-major order.
std::vector<std::size_t> broadcast_index(const Shape& from, const Shape& to);
// out[i...] = in[offset + Σ i·stride], strides in elements; any type with a fixed size.
Tensor strided_copy(const Tensor& in, const Shape& shape, std::int64_t offset, const Ints& strides);
Ints row_major_strides(const Shape& shape);

// fold_unary<[](auto x) { return -x; }>
template <auto f>
Folded fold_unary(const FoldContext& c) {
  return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    Tensor out(c.inputs[0].type());
    const auto x = c.inputs[0].values<T>();
    const auto y = out.write<T>();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(f(x[i]));
    return std::vector{out};
  });
}

// Integers as unsigned ones, in which arithmetic wraps instead of being undefined; floats as they are.
template <class T>
auto wrapping(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(x);
  else
    return x;
}

// fold_binary<[](auto a, auto b) { return wrapping(a) + wrapping(b); }>; a result of type bool gives booleans.
template <auto f>
Folded fold_binary(const FoldContext& c) {
  if (c.inputs.size() != 2 || c.inputs[0].dtype() != c.inputs[1].dtype()) return std::nullopt;
  return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    const Shape shape = broadcast(c.inputs[0].shape(), c.inputs[1].shape());
    const auto ia = broadcast_index(c.inputs[0].shape(), shape), ib = broadcast_index(c.inputs[1].shape(), shape);
    const auto a = c.inputs[0].values<T>(), b = c.inputs[1].values<T>();
    using Result = decltype(f(a[0], b[0]));
    using Element = std::conditional_t<std::is_same_v<Result, bool>, bool, T>;
    Tensor out(TensorType{dtype_of<Element>(), shape});
    const auto y = out.write<Element>();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<Element>(f(a[ia[i]], b[ib[i]]));
    return std::vector{out};
  });
}

Folded fold_reshape(const FoldContext& c);  // output 0: input 0's elements in the output's shape

}  // namespace tandem
