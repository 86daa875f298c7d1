// A name tells the process, its descriptor and a number by chance, which also stands at the beginning of the memory.
#include "ranks/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "ranks/hello.h"

namespace tandem {
namespace {

constexpr std::size_t head = 4096;  // bytes before data()

struct Name {
  std::int64_t process = 0, descriptor = 0;
  std::uint64_t size = 0;
  Token token{};
};

std::string text_of(const Name& name) { return {reinterpret_cast<const char*>(&name), sizeof name}; }

void* mapped(int descriptor, std::size_t size) { return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0); }

// Opens nothing but a plain file of that size: the process of this number may be any other one of this machine.
int descriptor_of(const Name& name) {
  const int place = ::open(concat("/proc/", name.process, "/fd/", name.descriptor).c_str(), O_PATH | O_CLOEXEC);
  struct stat about {};
  const bool plain = place >= 0 && ::fstat(place, &about) == 0 && S_ISREG(about.st_mode) &&
                     static_cast<std::uint64_t>(about.st_size) == name.size && name.size >= head;
  const int descriptor = plain ? ::open(concat("/proc/self/fd/", place).c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (place >= 0) ::close(place);
  return descriptor;
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::create(std::int64_t bytes) {
#if defined(__SANITIZE_THREAD__)
  return nullptr;  // ThreadSanitizer follows addresses: it takes memory that is mapped twice for two
#endif
  const std::size_t size = head + static_cast<std::size_t>(bytes);
  const int descriptor = ::memfd_create("tandem", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* const memory = ::ftruncate(descriptor, static_cast<off_t>(size)) == 0 ? mapped(descriptor, size) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    ::close(descriptor);
    return nullptr;
  }
  const Name name{::getpid(), descriptor, size, draw_token()};
  std::memcpy(memory, name.token.data(), name.token.size());
  return std::unique_ptr<SharedMemory>(new SharedMemory(text_of(name), descriptor, memory, size));
}

std::unique_ptr<SharedMemory> SharedMemory::find(const std::string& text) {
  Name name;
  if (text.size() != sizeof name) return nullptr;
  std::memcpy(&name, text.data(), sizeof name);
  const int descriptor = descriptor_of(name);
  if (descriptor < 0) return nullptr;
  void* const memory = mapped(descriptor, name.size);
  if (memory == MAP_FAILED) {
    ::close(descriptor);
    return nullptr;
  }
  std::unique_ptr<SharedMemory> found(new SharedMemory(text, descriptor, memory, name.size));
  return std::memcmp(memory, name.token.data(), name.token.size()) == 0 ? std::move(found) : nullptr;
}

SharedMemory::~SharedMemory() {
  ::munmap(mapped_, size_);
  ::close(descriptor_);
}

std::byte* SharedMemory::data() const { return static_cast<std::byte*>(mapped_) + head; }

}  // namespace tandem
