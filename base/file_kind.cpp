// Sources: each format's own specification of its first bytes.
#include "base/file_kind.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/error.h"
#include "base/printable.h"

namespace tandem {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::size_t at;
  std::string_view bytes;
  std::string_view what;
};
// The first that fits counts.
constexpr Kind kinds[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    {0, "\xff\xd8\xff"sv, "a JPEG image"},
    {0, "GIF8"sv, "a GIF image"},
    {8, "WEBP"sv, "a WebP image"},
    {0, "II*\0"sv, "a TIFF image"},
    {0, "MM\0*"sv, "a TIFF image"},
    {0, "\x1f\x8b"sv, "a gzip file (gunzip unpacks it)"},
    {0, "BZh"sv, "a bzip2 file (bunzip2 unpacks it)"},
    {0, "\xfd" "7zXZ\0"sv, "an xz file (unxz unpacks it)"},
    {0, "\x28\xb5\x2f\xfd"sv, "a Zstandard file (unzstd unpacks it)"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {257, "ustar"sv, "a tar archive"},
    {30, "archive/data.pkl"sv, "a PyTorch file (a zip archive of pickles)"},
    {30, "data.pkl"sv, "a PyTorch file (a zip archive of pickles)"},
    {0, "PK\x03\x04"sv, "a zip archive, as PyTorch (.pt), Keras (.keras) and NumPy (.npz) write them"},
    {0, "PK\x05\x06"sv, "an empty zip archive"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes them (.h5)"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "PAR1"sv, "a Parquet file"},
    {0, "ARROW1"sv, "an Arrow file"},
    {0, "GGUF"sv, "a GGUF file"},
    {4, "TFL3"sv, "a TensorFlow Lite model"},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format (.ort)"},
    {0, "ftrt"sv, "a TensorRT engine"},
    {0, "\x0a\x0btandem.plan"sv, "a plan of tandem"},
    {0, "\x80\x02"sv, "a Python pickle, as older PyTorch writes them"},
    {0, "\x80\x03"sv, "a Python pickle"},
    {0, "\x80\x04\x95"sv, "a Python pickle"},
    {0, "\x80\x05\x95"sv, "a Python pickle"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "\x7f" "ELF"sv, "a program or library (ELF)"},
    {0, "version https://git-lfs.github.com/"sv, "a Git LFS pointer in place of the file (git lfs pull fetches it)"},
};

// "BM" alone begins words, too: four bytes behind the file's length are zero.
bool is_bitmap(std::string_view bytes) { return bytes.size() >= 14 && bytes.starts_with("BM") && bytes.substr(6, 4) == "\0\0\0\0"sv; }

bool is_safetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{' || (bytes[9] != '"' && bytes[9] != '}')) return false;
  return std::all_of(bytes.begin() + 4, bytes.begin() + 8, [](char c) { return c == 0; });  // the header's length, below 4 GiB
}

// Of text alone, in small letters, without the space that it begins with.
constexpr Kind texts[] = {
    {0, "<!doctype html"sv, "an HTML page, as a server sends in place of a file"},
    {0, "<html"sv, "an HTML page, as a server sends in place of a file"},
    {0, "<?xml"sv, "an XML file"},
    {0, "{"sv, "a JSON file"},
    {0, "["sv, "a JSON file"},
    {0, "ir_version"sv, "an ONNX model in protobuf's text form"},
    {0, ""sv, "text"},
};

std::string_view matched(std::string_view bytes, auto& rows) {
  for (const Kind& kind : rows)
    if (bytes.size() >= kind.at && bytes.substr(kind.at).starts_with(kind.bytes)) return kind.what;
  return "";
}

}  // namespace

std::string kind_of_file(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  if (const std::string_view what = matched(bytes, kinds); !what.empty()) return std::string(what);
  if (is_bitmap(bytes)) return "a BMP image";
  if (is_safetensors(bytes)) return "a safetensors file";
  std::string_view head = bytes.substr(0, 256);
  const auto is_text = [](char c) { return static_cast<unsigned char>(c) >= ' ' ? c != 0x7f : c == '\n' || c == '\t' || c == '\r'; };
  const std::size_t whole = bytes.size() > head.size() ? head.find_last_of("\n ") : head.size();  // a character may be cut
  if (!std::all_of(head.begin(), head.end(), is_text) || !is_utf8(head.substr(0, whole))) return "";
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  std::string small(head.substr(0, 16));
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::string(matched(small, texts));
}

bool stands_in(std::string_view bytes) { return kind_of_file(bytes).find(" in place of ") != std::string::npos; }

std::string it_is(std::string_view bytes) {
  const std::string what = kind_of_file(bytes);
  return what.empty() ? "" : concat(": it is ", what);
}

}  // namespace tandem
