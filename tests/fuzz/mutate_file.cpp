// Texts, arrays and archives, and where targets keep files.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "data/zip.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    std::string name =
        ((::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) / "tandem_fuzz_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// The pieces of a text that mean something: numbers, words in quotes, and what stands between.
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto number = [](char d) { return std::isalnum(static_cast<unsigned char>(d)) || d == '.' || d == '-' || d == '+'; };
    std::size_t end = i + 1;
    if (c == '"' || c == '\'') {
      end = std::min(text.find(c, end), text.size() - 1) + 1;
    } else if (number(c)) {
      while (end < text.size() && number(text[end])) ++end;
    }
    pieces.push_back(text.substr(i, end - i));
    i = end;
  }
  return pieces;
}

}  // namespace

std::size_t give(const std::string& text, std::uint8_t* data, std::size_t room) {
  const std::size_t size = std::min(text.size(), room);
  std::copy_n(text.begin(), size, data);
  return size;
}

const std::filesystem::path& folder() {
  static const Folder folder;
  return folder.path;
}

std::filesystem::path write(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = folder() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void mutate_bytes(std::string& bytes, Random& random) {
  const std::size_t size = bytes.size();
  bytes.resize(size + 1 + random.below(64));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
}

void mutate_text(std::string& text, Random& random) {
  constexpr const char* limits[] = {"0",
                                    "-1",
                                    "1",
                                    "2",
                                    "4",
                                    "1e308",
                                    "-1e308",
                                    "1e999",
                                    "0.5",
                                    "9007199254740993",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551616",
                                    "NaN",
                                    "null",
                                    "true",
                                    "{}",
                                    "[]",
                                    "\"\"",
                                    "()",
                                    "(",
                                    "[[[[[[[[",
                                    "\"\\u0000\"",
                                    "'|u1'",
                                    "'<f2'",
                                    "'<i8'",
                                    "True"};
  std::vector<std::string> pieces = pieces_of(text);
  if (pieces.empty() || random.one_in(16)) return mutate_bytes(text, random);
  std::string& piece = random.of(pieces);
  const std::size_t at = static_cast<std::size_t>(&piece - pieces.data());
  const std::size_t end = std::min(pieces.size(), at + 1 + random.below(8));
  switch (random.below(6)) {
    case 0: piece = random.of(limits); break;
    case 1: std::swap(piece, random.of(pieces)); break;
    case 2: piece = std::string(random.of(pieces)); break;
    case 3: pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at), pieces.begin() + static_cast<std::ptrdiff_t>(end)); break;
    case 4: {
      const std::vector<std::string> again(pieces.begin() + static_cast<std::ptrdiff_t>(at),
                                           pieces.begin() + static_cast<std::ptrdiff_t>(end));
      pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(random.below(pieces.size())), again.begin(), again.end());
      break;
    }
    default: mutate_bytes(piece, random);
  }
  text.clear();
  for (const std::string& p : pieces) text += p;
}

void mutate_npy(std::string& bytes, Random& random) {
  constexpr std::size_t begin = 10;  // of the header, in version 1
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t length = bytes.size() < begin ? 0 : byte(8) | byte(9) << 8;
  if (length == 0 || length > bytes.size() - begin || random.one_in(8)) return mutate_bytes(bytes, random);
  std::string header = bytes.substr(begin, length), elements = bytes.substr(begin + length);
  if (random.one_in(3))
    mutate_bytes(elements, random);
  else
    mutate_text(header, random);
  header.resize(std::min<std::size_t>(header.size(), 0xFFFF));
  bytes.resize(8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header + elements;
}

void mutate_zip(std::string& bytes, const MutateMember& mutate, Random& random) {
  std::vector<std::pair<std::string, std::string>> members;
  try {
    ZipReader zip(write("mutated.zip", bytes));
    for (const std::string& name : zip.names()) {
      const std::vector<std::byte> contents = zip.read(name);
      members.emplace_back(name, std::string(reinterpret_cast<const char*>(contents.data()), contents.size()));
    }
  } catch (const Error&) {
    members.clear();
  }
  if (members.empty() || random.one_in(4)) return mutate_bytes(bytes, random);
  const std::size_t at = random.below(members.size());
  const auto other = members[random.below(members.size())];
  auto& [name, contents] = members[at];
  switch (random.below(8)) {
    case 0: members.erase(members.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: mutate_text(name, random); break;
    case 2: contents = other.second; break;
    case 3: members.emplace_back(other.first, contents); break;
    default: mutate(name, contents, random);
  }
  bytes.clear();
  ZipWriter zip([&](std::string_view piece) { bytes += piece; });
  for (const auto& [n, c] : members) zip.add(n, c);
  zip.finish();
}

}  // namespace tandem::fuzz
