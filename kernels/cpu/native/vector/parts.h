// What the sources of this folder give the table of their instruction set.
#pragma once
#include "kernels/cpu/native/vector/vector.h"

namespace tandem::vector::TANDEM_ISA {

extern const MicroRow micro_ops[];
extern const int micro_op_count;
void widen_bfloat16(void* y, const void* a, const void*, const void*, std::int64_t n, const double*);
void narrow_bfloat16(void* y, const void* a, const void*, const void*, std::int64_t n, const double*);
template <class T>
const Reductions<T>& reductions();
template <class T>
const Updates<T>& updates();
template <class T>
Drop<T>* dropping();
template <class T>
const Attending<T>& attending();
template <class T>
const Recurring<T>& recurring();
void philox_run(std::uint32_t* words, std::int64_t first, std::int64_t n, const PhiloxState& state);
void philox_at(std::uint32_t* words, const std::int64_t* elements, std::int64_t n, const PhiloxState& state);
const ConvolutionTiles& convolution_tiles();
const Products& products();
extern const RowProducts row_products;
const Dots* dots();
extern const RowNormalizations row_normalizations[7];
extern const BatchNormalizations batch_normalizations[3];
extern const Transpose transposes[2];
const Pooling& pooling();

}  // namespace tandem::vector::TANDEM_ISA
