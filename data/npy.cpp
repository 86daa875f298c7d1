#include "data/npy.h"
#include "base/file_kind.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

namespace tandem {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct TypeRow {
  std::string_view code;
  DType dtype;
};
constexpr TypeRow types[] = {
    {"|b1", DType::boolean}, {"|u1", DType::uint8},   {"|i1", DType::int8},    {"<u2", DType::uint16},
    {"<i2", DType::int16},   {"<u4", DType::uint32},  {"<i4", DType::int32},   {"<u8", DType::uint64},
    {"<i8", DType::int64},   {"<f2", DType::float16}, {"<f4", DType::float32}, {"<f8", DType::float64},
};

float float_of_half(std::uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

// The header is a Python dictionary with three known keys.
class Header {
 public:
  Header(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  std::string_view quoted(std::string_view key) {
    const std::string_view rest = after(key);
    const char quote = rest.empty() ? '\0' : rest[0];
    const std::size_t end = rest.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos) bad(key);
    return rest.substr(1, end - 1);
  }
  bool boolean(std::string_view key) {
    const std::string_view rest = after(key);
    if (!rest.starts_with("True") && !rest.starts_with("False")) bad(key);
    return rest.starts_with("True");
  }
  Shape shape() {
    std::string_view rest = after("shape");
    const std::size_t end = rest.find(')');
    if (!rest.starts_with('(') || end == std::string_view::npos) bad("shape");
    rest = rest.substr(1, end - 1);
    Shape shape;
    while (!rest.empty()) {
      std::int64_t dim = 0;
      const auto r = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
      if (r.ec != std::errc{} || dim < 0 || shape.rank() == 32) bad("shape");
      shape.dims.push_back(dim);
      rest.remove_prefix(static_cast<std::size_t>(r.ptr - rest.data()));
      const std::size_t next = rest.find_first_not_of(", L");
      rest = next == std::string_view::npos ? std::string_view() : rest.substr(next);
    }
    return shape;
  }

 private:
  std::string_view after(std::string_view key) {
    for (const char quote : {'\'', '"'}) {
      const std::size_t at = text_.find(concat(quote, key, quote));
      if (at == std::string_view::npos) continue;
      const std::size_t value = text_.find_first_not_of(": ", at + key.size() + 2);
      if (value != std::string_view::npos) return text_.substr(value);
    }
    bad(key);
  }
  [[noreturn]] void bad(std::string_view key) const { fail(ExitCode::data, what_, ": the npy header's '", key, "' is missing or damaged"); }
  std::string_view text_;
  std::string_view what_;
};

// Elements stored first axis fastest, as row-major.
Tensor from_fortran(const Tensor& stored, const Shape& shape) {
  Tensor out(TensorType{stored.dtype(), shape});
  const std::size_t size = size_of(stored.dtype());
  const std::byte* from = stored.bytes().data();
  std::byte* to = out.write().data();
  std::vector<std::int64_t> strides, index(static_cast<std::size_t>(shape.rank()));
  std::int64_t stride = 1;
  for (const std::int64_t dim : shape) {
    strides.push_back(stride);
    stride *= dim;
  }
  for (std::int64_t i = 0, n = shape.elements(); i < n; ++i) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < index.size(); ++a) at += index[a] * strides[a];
    std::memcpy(to + static_cast<std::size_t>(i) * size, from + static_cast<std::size_t>(at) * size, size);
    for (std::size_t a = index.size(); a-- > 0 && ++index[a] == shape.dims[a];) index[a] = 0;
  }
  return out;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::uint64_t file_bytes, std::string_view what) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic) || text.size() < 10)
    fail(ExitCode::data, what, ": not an npy array (no \\x93NUMPY at its start)", it_is(text));
  const int major = text[6];
  if (major < 1 || major > 3) fail(ExitCode::data, what, ": npy version ", major, ", expected 1 to 3");
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::size_t length = 0;
  if (text.size() < 8 + length_bytes) fail(ExitCode::data, what, ": truncated in the npy header");
  for (std::size_t i = 0; i < length_bytes; ++i) length |= static_cast<std::size_t>(std::to_integer<unsigned>(bytes[8 + i])) << (8 * i);
  const std::size_t begin = 8 + length_bytes;
  if (text.size() - begin < length) fail(ExitCode::data, what, ": truncated in the npy header");

  Header header(text.substr(begin, length), what);
  const std::string_view code = header.quoted("descr");
  NpyHeader h{.begin = begin + length};
  for (const TypeRow& row : types)
    if (row.code == code) h.stored = row.dtype;
  if (h.stored == DType::undefined)
    fail(ExitCode::data, what, ": elements of type '", code, "', expected little-endian numbers (|u1, <i8, <f4, ...)");
  h.shape = header.shape();
  h.fortran = header.boolean("fortran_order") && h.shape.rank() > 1;
  unsigned __int128 wanted = size_of(h.stored);  // a product beyond 2^64 is only known to be too large
  for (const std::int64_t dim : h.shape) wanted = wanted >> 64 && dim ? wanted : wanted * static_cast<std::uint64_t>(dim);
  if (wanted != file_bytes - h.begin)
    fail(ExitCode::data, what, ": ", h.shape, " of '", code, "' does not fit the ", file_bytes - h.begin, " bytes that follow the header");
  return h;
}

void floats_of_halves(const std::byte* halves, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, halves + 2 * i, 2);
    to[i] = float_of_half(half);
  }
}

Tensor parse_npy(std::span<const std::byte> bytes, std::string_view what) {
  const NpyHeader header = parse_npy_header(bytes, bytes.size(), what);
  const std::span<const std::byte> data = bytes.subspan(header.begin);
  Tensor tensor(TensorType{header.dtype(), header.shape});
  if (header.stored == DType::float16)
    floats_of_halves(data.data(), data.size() / 2, tensor.write<float>().data());
  else if (!data.empty())
    std::memcpy(tensor.write().data(), data.data(), data.size());
  return header.fortran ? from_fortran(tensor, header.shape) : tensor;
}

NpyFile npy_file_of(const Tensor& tensor) {
  if (is_small_float(tensor.dtype())) return npy_file_of(tensor.cast(DType::float32));
  if (is_small(tensor.dtype()))
    return npy_file_of(tensor.cast(tensor.dtype() == DType::int4 || tensor.dtype() == DType::int2 ? DType::int8 : DType::uint8));
  std::string_view code;
  for (const TypeRow& row : types)
    if (row.dtype == tensor.dtype()) code = row.code;
  if (code.empty()) fail(ExitCode::data, "npy cannot hold ", tensor.type());
  std::string dims;
  for (const std::int64_t dim : tensor.shape()) dims += concat(dim, ", ");
  if (tensor.shape().rank() > 1)
    dims.resize(dims.size() - 2);
  else if (tensor.shape().rank() == 1)
    dims.pop_back();
  std::string header = concat("{'descr': '", code, "', 'fortran_order': False, 'shape': (", dims, "), }");
  header.append(63 - (magic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  std::string out(magic);
  out += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return {out + header, tensor};
}

std::string npy_of(const Tensor& tensor) {
  const NpyFile file = npy_file_of(tensor);
  return concat(file.header, file.elements());
}

}  // namespace tandem
