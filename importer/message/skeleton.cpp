// Source: protobuf.dev, "Encoding". Of the file's fields those of the graph are looked through, and of these the initializers; all others
// are copied. A file that breaks off, or is otherwise odd, is parsed whole: then what is wrong with it is told as of any other.
#include "importer/message/skeleton.h"

#include <algorithm>
#include <array>

#include "importer/message/limits.h"
#include "importer/message/reader.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

enum : std::uint64_t { varint_type = 0, fixed64_type = 1, delimited = 2, fixed32_type = 5 };

// A field of a message: where it begins, and where its contents do and end.
struct Field {
  std::uint64_t number = 0, type = 0;
  std::int64_t start = 0, begin = 0, end = 0;
  std::int64_t bytes() const { return end - begin; }
};

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void append_field(std::string& to, int number, std::string_view contents) {
  append_varint(to, static_cast<std::uint64_t>(number) << 3 | delimited);
  append_varint(to, contents.size());
  to += contents;
}

bool holds_values(std::uint64_t number) {
  using Proto = onnx::TensorProto;
  constexpr int fields[] = {Proto::kFloatDataFieldNumber, Proto::kInt32DataFieldNumber, Proto::kStringDataFieldNumber,
                            Proto::kInt64DataFieldNumber, Proto::kRawDataFieldNumber,   Proto::kDoubleDataFieldNumber,
                            Proto::kUint64DataFieldNumber};
  return std::ranges::count(fields, static_cast<int>(number)) > 0;
}

class Skeleton {
 public:
  explicit Skeleton(const InputFile& file) : file_(file) {}

  // Fails where the file is not as it should be.
  std::string of_model() {
    std::string model;
    each_field(0, file_.size(), [&](const Field& f) {
      if (f.number == onnx::ModelProto::kGraphFieldNumber && f.type == delimited)
        append_field(model, onnx::ModelProto::kGraphFieldNumber, of_graph(f));
      else copy(f.start, f.end, model);
    });
    return model;
  }

  std::set<std::int64_t> offsets;  // of what was left out

 private:
  std::string of_graph(const Field& graph) {
    std::string text;
    each_field(graph.begin, graph.end, [&](const Field& f) {
      const bool large = f.number == onnx::GraphProto::kInitializerFieldNumber && f.type == delimited && f.bytes() >= least_streamed;
      if (large) append_field(text, onnx::GraphProto::kInitializerFieldNumber, of_tensor(f));
      else copy(f.start, f.end, text);
    });
    return text;
  }

  std::string of_tensor(const Field& tensor) {
    std::string text;
    Field values;
    int lists = 0;
    each_field(tensor.begin, tensor.end, [&](const Field& f) {
      if (!holds_values(f.number)) copy(f.start, f.end, text);
      else ++lists, values = f;
    });
    onnx::TensorProto proto;
    if (lists == 1 && proto.ParseFromString(text) && may_stay(proto, values)) {
      offsets.insert(values.begin);
      set_place(proto, values);
      return proto.SerializeAsString();
    }
    text.clear();
    copy(tensor.begin, tensor.end, text);
    return text;
  }

  // Whether the field holds the tensor's values as they lie in memory.
  static bool may_stay(const onnx::TensorProto& proto, const Field& values) {
    const auto dtype = static_cast<DType>(proto.data_type());
    const bool fits = values.number == onnx::TensorProto::kRawDataFieldNumber ||
                      (values.number == onnx::TensorProto::kFloatDataFieldNumber && dtype == DType::float32) ||
                      (values.number == onnx::TensorProto::kDoubleDataFieldNumber && dtype == DType::float64);
    if (values.type != delimited || values.bytes() < least_streamed || !fits || !is_float(dtype)) return false;
    if (proto.has_data_location() || proto.external_data_size() > 0 || proto.has_segment()) return false;
    return bytes_in_file(type_of(proto)) == values.bytes();
  }

  static void set_place(onnx::TensorProto& proto, const Field& values) {
    const bool raw = values.number == onnx::TensorProto::kRawDataFieldNumber;
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair{"location", std::string(raw ? own_raw : own_typed)}, {"offset", std::to_string(values.begin)}}) {
      auto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
  }

  template <class Visit>
  void each_field(std::int64_t begin, std::int64_t end, const Visit& visit) {
    for (std::int64_t at = begin; at < end;) {
      Field f{.start = at};
      const std::uint64_t tag = varint(at, end);
      f.number = tag >> 3;
      f.type = tag & 7;
      std::uint64_t size = f.type == fixed64_type ? 8 : 4;
      if (f.type == delimited) size = varint(at, end);
      f.begin = at;
      if (f.type == varint_type) {
        varint(at, end);
        f.end = at;
      } else {
        const bool known = f.type == fixed64_type || f.type == delimited || f.type == fixed32_type;
        if (!known || size > static_cast<std::uint64_t>(end - at)) fail("is damaged");
        f.end = at += static_cast<std::int64_t>(size);
      }
      visit(f);
    }
  }

  std::uint64_t varint(std::int64_t& at, std::int64_t end) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(byte_at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("is damaged");
  }

  char byte_at(std::int64_t at) {
    if (at < window_begin_ || at >= window_begin_ + window_bytes_) {
      window_begin_ = at;
      window_bytes_ = std::min<std::int64_t>(std::ssize(window_), file_.size() - at);
      file_.read(window_.data(), static_cast<std::size_t>(window_bytes_), at);
    }
    return window_[static_cast<std::size_t>(at - window_begin_)];
  }

  void copy(std::int64_t begin, std::int64_t end, std::string& to) {
    const std::size_t before = to.size(), bytes = static_cast<std::size_t>(end - begin);
    to.resize(before + bytes);
    if (end <= window_begin_ + window_bytes_ && begin >= window_begin_) {
      std::copy_n(window_.begin() + (begin - window_begin_), bytes, to.begin() + static_cast<std::ptrdiff_t>(before));
    } else if (bytes < window_.size() / 2) {
      for (std::size_t i = 0; i < bytes; ++i) to[before + i] = byte_at(begin + static_cast<std::int64_t>(i));
    } else {
      file_.read(to.data() + before, bytes, begin);
    }
  }

  const InputFile& file_;
  std::array<char, 1 << 14> window_{};
  std::int64_t window_begin_ = 0, window_bytes_ = 0;
};

}  // namespace

onnx::ModelProto read_model(std::shared_ptr<const InputFile> file, ExternalData& external) {
  if (file->size() > limits::model_bytes) fail("has ", file->size(), " bytes, at most ", limits::model_bytes, " are read");
  if (file->size() >= least_streamed) try {
      Skeleton skeleton(*file);
      onnx::ModelProto model = parse_model(skeleton.of_model());
      if (!skeleton.offsets.empty()) external.set_own(file, std::move(skeleton.offsets));
      return model;
    } catch (const Error& e) {
      if (e.code() == ExitCode::io) throw;
    }
  std::string bytes(static_cast<std::size_t>(file->size()), '\0');
  file->read(bytes.data(), bytes.size(), 0);
  return parse_model(bytes);
}

}  // namespace tandem
