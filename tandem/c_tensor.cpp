// The C API: tensors.
#include <algorithm>

#include "tandem/c_handles.h"

namespace tandem::c {
namespace {

// The structures of DLPack, version 0 (https://dmlc.github.io/dlpack).
struct DlTensor {
  void* data;
  struct {
    std::int32_t type, id;
  } device;
  std::int32_t rank;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *dims, *strides;  // strides in elements; null: row-major
  std::uint64_t offset;          // bytes
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged* self);
};
constexpr std::int32_t dl_cpu = 1, dl_pinned = 3;

struct DlType {
  std::uint8_t code, bits;
  DType dtype;
};
constexpr DlType dl_types[] = {{2, 32, DType::float32}, {2, 64, DType::float64}, {2, 16, DType::float16}, {4, 16, DType::bfloat16},
                               {0, 8, DType::int8},     {0, 16, DType::int16},   {0, 32, DType::int32},   {0, 64, DType::int64},
                               {1, 8, DType::uint8},    {1, 16, DType::uint16},  {1, 32, DType::uint32},  {1, 64, DType::uint64},
                               {6, 8, DType::boolean}};

TensorType dl_type_of(const DlTensor& t) {
  if (t.device.type != dl_cpu && t.device.type != dl_pinned)
    fail(ExitCode::usage, "DLPack: device type ", t.device.type, ", expected a CPU's memory");
  for (const DlType& known : dl_types)
    if (known.code == t.dtype.code && known.bits == t.dtype.bits && t.dtype.lanes == 1)
      return type_of(static_cast<int>(known.dtype), t.rank, t.dims);
  fail(ExitCode::usage, "DLPack: element type ", static_cast<int>(t.dtype.code), " of ", static_cast<int>(t.dtype.bits), " bits in ",
       t.dtype.lanes, " lanes is none that tandem has");
}

bool is_row_major(const DlTensor& t) {
  std::int64_t stride = 1;
  for (int i = t.rank - 1; t.strides && i >= 0; --i) {
    if (t.dims[i] != 1 && t.strides[i] != stride) return false;
    stride *= t.dims[i];
  }
  return true;
}

// What a tensor that was given away lies in, and what one that was taken over goes back to.
struct Lent {
  DlManaged managed{};
  Tensor values;
};
struct Taken {
  DlManaged* managed = nullptr;
  Taken() = default;
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (managed && managed->deleter) managed->deleter(managed);
  }
};

}  // namespace

TensorType type_of(int dtype, int rank, const std::int64_t* dims) {
  const bool known = std::ranges::any_of(dl_types, [&](const DlType& t) { return static_cast<int>(t.dtype) == dtype; });
  if (!known) fail(ExitCode::usage, "element type ", dtype, " is none of tandem_dtype");
  constexpr int most = 64;
  if (rank < 0 || rank > most) fail(ExitCode::usage, "a tensor of ", rank, " axes, expected 0 to ", most);
  if (rank > 0) need(dims, "dims");
  for (int i = 0; i < rank; ++i)
    if (dims[i] < 0) fail(ExitCode::usage, "axis ", i, " of a tensor has the size ", dims[i]);
  return {static_cast<DType>(dtype), Shape(std::vector<std::int64_t>(dims, dims + rank))};
}

}  // namespace tandem::c

using namespace tandem;

int tandem_tensor_new(int dtype, int rank, const int64_t* dims, tandem_tensor** out) {
  return c::guarded([&] { c::need(out, "out") = new tandem_tensor{Tensor(c::type_of(dtype, rank, dims))}; });
}

int tandem_tensor_view(int dtype, int rank, const int64_t* dims, const void* data, void (*release)(void* context), void* context,
                       tandem_tensor** out) {
  return c::guarded([&] {
    tandem_tensor*& place = c::need(out, "out");
    const TensorType type = c::type_of(dtype, rank, dims);
    if (type.shape.elements() > 0) c::need(static_cast<const std::byte*>(data), "data");
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(type.dtype) != 0)
      fail(ExitCode::usage, "the data of a view of ", type, " are not aligned to their elements");
    std::shared_ptr<const void> owner;
    if (release) owner = std::shared_ptr<const void>(data, [release, context](const void*) { release(context); });
    place = new tandem_tensor{Tensor::view(type, static_cast<const std::byte*>(data), std::move(owner))};
  });
}

int tandem_tensor_dtype(const tandem_tensor* t) {
  return t ? static_cast<int>(t->values.dtype()) : 0;
}
int tandem_tensor_rank(const tandem_tensor* t) {
  return t ? t->values.shape().rank() : 0;
}
const int64_t* tandem_tensor_dims(const tandem_tensor* t) {
  return t ? t->values.shape().dims.data() : nullptr;
}
size_t tandem_tensor_bytes(const tandem_tensor* t) {
  return t ? t->values.bytes().size() : 0;
}
const void* tandem_tensor_data(const tandem_tensor* t) {
  return t ? t->values.bytes().data() : nullptr;
}

void* tandem_tensor_write(tandem_tensor* t) {
  std::byte* values = nullptr;
  const int code = c::guarded([&] { values = c::need(t, "tensor").values.write().data(); });
  return code == TANDEM_OK ? values : nullptr;
}

void tandem_tensor_free(tandem_tensor* t) {
  delete t;
}

int tandem_tensor_from_dlpack(void* managed, tandem_tensor** out) {
  return c::guarded([&] {
    tandem_tensor*& place = c::need(out, "out");
    c::DlManaged* const from = &c::need(static_cast<c::DlManaged*>(managed), "managed");
    const TensorType type = c::dl_type_of(from->tensor);
    if (!c::is_row_major(from->tensor)) fail(ExitCode::usage, "DLPack: a tensor of ", type, " that is not row-major: copy it first");
    const std::byte* const data = static_cast<const std::byte*>(from->tensor.data) + from->tensor.offset;
    auto tensor = std::make_unique<tandem_tensor>();
    const auto owner = std::make_shared<c::Taken>();
    tensor->values = Tensor::view(type, data, owner);
    owner->managed = from;  // from here on nothing fails
    place = tensor.release();
  });
}

int tandem_tensor_to_dlpack(const tandem_tensor* tensor, void** managed) {
  return c::guarded([&] {
    const Tensor& t = c::need(tensor, "tensor").values;
    void*& place = c::need(managed, "managed");
    auto lent = std::make_unique<c::Lent>();
    lent->values = t;
    const auto known = std::ranges::find(c::dl_types, t.dtype(), &c::DlType::dtype);
    if (known == std::end(c::dl_types)) fail(ExitCode::usage, "DLPack has no elements of ", t.dtype());
    lent->managed.tensor = {.data = const_cast<std::byte*>(t.bytes().data()),
                            .device = {c::dl_cpu, 0},
                            .rank = t.shape().rank(),
                            .dtype = {known->code, known->bits, 1},
                            .dims = const_cast<std::int64_t*>(lent->values.shape().dims.data()),
                            .strides = nullptr,
                            .offset = 0};
    lent->managed.context = lent.get();
    lent->managed.deleter = [](c::DlManaged* self) { delete static_cast<c::Lent*>(self->context); };
    place = &lent.release()->managed;
  });
}
