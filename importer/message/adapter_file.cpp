#include "importer/message/adapter_file.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/file_kind.h"
#include "importer/message/limits.h"

namespace tandem {
namespace {

constexpr std::string_view identifier = "TORT";
constexpr std::int32_t format_version = 1;

// Every offset points forward, so pieces are written in the order in which they are read, and offsets once their target is known.
class Writer {
 public:
  std::size_t at() const { return bytes_.size(); }
  void align(std::size_t to, std::size_t ahead = 0) {  // of the place `ahead` bytes further
    while ((bytes_.size() + ahead) % to != 0) bytes_.push_back('\0');
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view bytes) { bytes_ += bytes; }
  std::size_t open() {  // an offset
    put(std::uint32_t{0});
    return at() - 4;
  }
  void close(std::size_t offset) {
    const auto distance = static_cast<std::uint32_t>(at() - offset);
    std::memcpy(bytes_.data() + offset, &distance, sizeof distance);
  }
  // The vtable of four fields of four bytes each, then the table, up to its first field.
  void begin_table(std::size_t offset) {
    align(4);
    constexpr std::uint16_t vtable[] = {12, 20, 4, 8, 12, 16};
    for (const std::uint16_t n : vtable) put(n);
    close(offset);
    put(std::int32_t{12});  // back to the vtable
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// All of it is checked: the file may be anything.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T get(std::size_t at) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) broken("it ends early");
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  std::size_t follow(std::size_t offset) const { return offset + get<std::uint32_t>(offset); }
  // Where field `index` of a table lies; 0: it has the default.
  std::size_t field(std::size_t table, std::size_t index) const {
    const std::int64_t vtable = static_cast<std::int64_t>(table) - get<std::int32_t>(table);
    if (vtable < 0) broken("a table lies outside");
    const auto place = static_cast<std::size_t>(vtable);
    if (4 + 2 * index + 2 > get<std::uint16_t>(place)) return 0;
    const auto within = get<std::uint16_t>(place + 4 + 2 * index);
    return within == 0 ? 0 : table + within;
  }
  std::int32_t integer(std::size_t table, std::size_t index) const {
    const std::size_t at = field(table, index);
    return at == 0 ? 0 : get<std::int32_t>(at);
  }
  struct Vector {
    std::size_t at = 0, size = 0;
  };
  Vector vector(std::size_t table, std::size_t index, std::size_t element) const {
    const std::size_t at = field(table, index);
    if (at == 0) return {};
    const std::size_t start = follow(at), size = get<std::uint32_t>(start);
    if (size > (bytes_.size() - start - 4) / element) broken("a list is longer than the file");
    return {start + 4, size};
  }
  std::string_view text(const Vector& v) const { return bytes_.substr(v.at, v.size); }

  [[noreturn]] static void broken(std::string_view why) {
    fail(ExitCode::model, "it is no file of adapters in ONNX Runtime's format: ", why);
  }

 private:
  std::string_view bytes_;
};

}  // namespace

std::string adapter_bytes(const std::vector<AdapterParameter>& parameters) {
  std::size_t bytes = 0;
  for (const AdapterParameter& p : parameters) bytes += p.tensor.bytes().size() + p.name.size() + 128;
  if (bytes >= std::size_t{1} << 31)
    fail(ExitCode::io, "adapters of ", bytes, " bytes: a file of ONNX Runtime's format holds at most 2 GiB");
  Writer w;
  const std::size_t root = w.open();
  w.put(identifier);
  w.begin_table(root);
  w.put(format_version);
  w.put(std::int32_t{1});  // adapter_version
  w.put(std::int32_t{1});  // model_version
  const std::size_t list = w.open();
  w.close(list);
  w.put(static_cast<std::uint32_t>(parameters.size()));
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) places.push_back(w.open());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const AdapterParameter& p = parameters[i];
    w.begin_table(places[i]);
    const std::size_t name = w.open(), dims = w.open();
    w.put(static_cast<std::int32_t>(p.tensor.dtype()));
    const std::size_t data = w.open();
    w.close(name);
    w.put(static_cast<std::uint32_t>(p.name.size()));
    w.put(p.name);
    w.put('\0');
    w.align(8, 4);
    w.close(dims);
    w.put(static_cast<std::uint32_t>(p.tensor.shape().rank()));
    for (const std::int64_t d : p.tensor.shape()) w.put(d);
    w.align(8, 4);
    w.close(data);
    const auto values = p.tensor.bytes();
    w.put(static_cast<std::uint32_t>(values.size()));
    w.put(std::string_view(reinterpret_cast<const char*>(values.data()), values.size()));
  }
  return w.take();
}

std::vector<AdapterParameter> parse_adapter(std::string_view bytes) {
  const Reader r(bytes);
  if (bytes.size() < 8 || bytes.substr(4, 4) != identifier) Reader::broken(concat("it does not begin as one", it_is(bytes)));
  const std::size_t root = r.follow(0);
  if (const std::int32_t version = r.integer(root, 0); version != format_version)
    Reader::broken(concat("format version ", version, ", expected ", format_version));
  const Reader::Vector list = r.vector(root, 3, 4);
  std::vector<AdapterParameter> parameters;
  std::size_t left = 2 * bytes.size();  // a builder may write what is alike once
  for (std::size_t i = 0; i < list.size; ++i) {
    const std::size_t table = r.follow(list.at + 4 * i);
    const Reader::Vector name = r.vector(table, 0, 1), dims = r.vector(table, 1, 8), data = r.vector(table, 3, 1);
    const std::size_t taken = sizeof(AdapterParameter) / 8 + name.size + 8 * dims.size + data.size;
    if (taken > left)
      Reader::broken(concat("its first ", i + 1, " tensors take more than twice the ", bytes.size(),
                            " bytes of the file: they lie in the same bytes"));
    left -= taken;
    AdapterParameter p{.name = std::string(r.text(name)), .tensor = {}};
    const auto type = static_cast<DType>(r.integer(table, 2));
    std::int64_t wanted = static_cast<std::int64_t>(size_of(type));
    if (wanted == 0) Reader::broken(concat("'", p.name, "' is of data type ", static_cast<int>(type)));
    Shape shape;
    for (std::size_t k = 0; k < dims.size; ++k) {
      const auto d = r.get<std::int64_t>(dims.at + 8 * k);
      if (d < 0 || __builtin_mul_overflow(wanted, d, &wanted)) Reader::broken(concat("'", p.name, "' has a dimension of ", d));
      shape.dims.push_back(d);
    }
    if (wanted != static_cast<std::int64_t>(data.size))
      Reader::broken(concat("'", p.name, "' of ", shape, " has ", data.size, " bytes, expected ", wanted));
    p.tensor = Tensor(TensorType{type, std::move(shape)});
    if (data.size > 0) std::memcpy(p.tensor.write().data(), r.text(data).data(), data.size);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

std::vector<AdapterParameter> read_adapter(const std::filesystem::path& path) {
  const std::string bytes = read_regular(path, limits::model_bytes, ExitCode::io);
  try {
    return parse_adapter(bytes);
  } catch (const Error& e) {
    fail(e.code(), "'", path.string(), "': ", e.what());
  }
}

}  // namespace tandem
