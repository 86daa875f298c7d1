// Source: protocol buffers' encoding. A message is fields one behind the other, each a tag and its contents; that of a message, a string or
// a packed list begins with its length. Known lengths make the lengths of what is around them known, so that nothing is written twice.
#include "importer/write/stream_model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "base/error.h"
#include "graph/tensor_chunks.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using Wire = google::protobuf::internal::WireFormatLite;

constexpr std::uint32_t delimited = Wire::WIRETYPE_LENGTH_DELIMITED;

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text += static_cast<char>(value);
}

std::string header(int field, std::uint64_t bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | delimited) + varint(bytes);
}

int field_of(const StreamedTensor& t) {
  if (t.form == DataForm::raw) return onnx::TensorProto::kRawDataFieldNumber;
  return t.type.dtype == DType::float32 ? onnx::TensorProto::kFloatDataFieldNumber : onnx::TensorProto::kDoubleDataFieldNumber;
}

// A field of a message that was serialized: all of it, and its contents where it is of the kind that begins with its length.
struct Field {
  int number;
  std::string_view all, contents;
};

std::vector<Field> fields_of(std::string_view message) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size()));
  std::vector<Field> fields;
  for (int at = 0; at < static_cast<int>(message.size());) {
    const std::uint32_t tag = input.ReadTag();
    std::string_view contents;
    if (tag != 0 && (tag & 7) == delimited) {
      std::uint32_t bytes = 0;
      input.ReadVarint32(&bytes);
      contents = message.substr(static_cast<std::size_t>(input.CurrentPosition()), bytes);
      input.Skip(static_cast<int>(bytes));
    } else if (tag == 0 || !Wire::SkipField(&input, tag)) {
      fail("a message that was just made cannot be read");
    }
    const int end = input.CurrentPosition();
    const std::string_view all = message.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at));
    fields.push_back({static_cast<int>(tag >> 3), all, contents});
    at = end;
  }
  return fields;
}

// A part of the file: bytes that there are, or a tensor's.
struct Piece {
  std::string own;        // before what follows
  std::string_view text;
  const std::string* tensor = nullptr;
  std::size_t tensor_bytes = 0;
  std::size_t bytes() const { return own.size() + text.size() + tensor_bytes; }
};
using Pieces = std::vector<Piece>;

std::size_t bytes_of(const Pieces& pieces) {
  std::size_t all = 0;
  for (const Piece& p : pieces) all += p.bytes();
  return all;
}

// A field whose contents are these.
void append(Pieces& to, int field, Pieces contents) {
  to.push_back({header(field, bytes_of(contents)), {}});
  to.insert(to.end(), std::make_move_iterator(contents.begin()), std::make_move_iterator(contents.end()));
}

Pieces with_values(std::string_view message, const std::string& name, const StreamedTensor& tensor) {
  const int field = field_of(tensor);
  const auto bytes = static_cast<std::size_t>(bytes_in_file(tensor.type));
  Pieces pieces;
  bool put = false;
  const auto values = [&] {
    if (!std::exchange(put, true)) pieces.push_back({header(field, bytes), {}, &name, bytes});
  };
  for (const Field& f : fields_of(message)) {
    if (f.number > field) values();
    if (f.number != field) pieces.push_back({{}, f.all});
  }
  values();
  return pieces;
}

Pieces pieces_of(std::string_view text, const onnx::ModelProto& model, const std::map<std::string, StreamedTensor>& streamed) {
  Pieces pieces;
  for (const Field& of_model : fields_of(text)) {
    if (of_model.number != onnx::ModelProto::kGraphFieldNumber) {
      pieces.push_back({{}, of_model.all});
      continue;
    }
    Pieces graph;
    int index = 0;
    for (const Field& of_graph : fields_of(of_model.contents)) {
      const bool initializer = of_graph.number == onnx::GraphProto::kInitializerFieldNumber;
      const onnx::TensorProto* const proto = initializer ? &model.graph().initializer(index++) : nullptr;
      const auto found = proto && form_of(*proto) == DataForm::none ? streamed.find(proto->name()) : streamed.end();
      if (found == streamed.end() || found->second.type.shape.elements() == 0) graph.push_back({{}, of_graph.all});
      else append(graph, of_graph.number, with_values(of_graph.contents, found->first, found->second));
    }
    append(pieces, of_model.number, std::move(graph));
  }
  return pieces;
}

}  // namespace

std::size_t streamed_bytes(const StreamedTensor& tensor) {
  constexpr std::size_t around = 16;  // its tag and length, and what these make the lengths around it longer
  return static_cast<std::size_t>(bytes_in_file(tensor.type)) + around;
}

void write_streamed(const onnx::ModelProto& model, const std::map<std::string, StreamedTensor>& streamed,
                    const std::function<Tensor(const std::string&)>& value, AtomicFile& file) {
  const std::string text = model.SerializeAsString();
  for (const Piece& piece : pieces_of(text, model, streamed)) {
    if (!piece.own.empty()) file.append(piece.own);
    file.append(piece.text);
    if (!piece.tensor) continue;
    const Tensor tensor = value(*piece.tensor);
    if (tensor.type() != streamed.at(*piece.tensor).type)
      fail("weight '", *piece.tensor, "' is ", tensor.type(), ", the file's is ", streamed.at(*piece.tensor).type);
    if (bits_of(tensor.dtype()) < 8) file.append(packed(tensor));
    else
      each_chunk(tensor, [&](std::span<const std::byte> chunk, std::int64_t) {
        file.append({reinterpret_cast<const char*>(chunk.data()), chunk.size()});
      });
  }
}

}  // namespace tandem
