// Memory that processes of one machine see at once: pages without a file, which one makes and the others find by its name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tandem {

class SharedMemory {
 public:
  // All zero. Null where the system refuses so many bytes.
  static std::unique_ptr<SharedMemory> create(std::int64_t bytes);
  // What create() made, perhaps in another process, which still has it. Null where it cannot be reached from here: it is of another
  // machine, container or user.
  static std::unique_ptr<SharedMemory> find(const std::string& name);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  const std::string& name() const { return name_; }
  std::byte* data() const;

 private:
  SharedMemory(std::string name, int descriptor, void* mapped, std::size_t size)
      : name_(std::move(name)), descriptor_(descriptor), mapped_(mapped), size_(size) {}
  const std::string name_;
  const int descriptor_;
  void* const mapped_;
  const std::size_t size_;
};

}  // namespace tandem
