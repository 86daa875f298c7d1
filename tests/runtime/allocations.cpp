#include "tests/runtime/allocations.h"

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> own{0}, libraries{0};

// The program's own code lies in the first object that is listed; shared libraries follow.
struct Range {
  std::uintptr_t begin = 0, end = 0;
};
Range program_range() {
  Range range;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        Range& r = *static_cast<Range*>(out);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          r.begin = info->dlpi_addr + segment.p_vaddr;
          r.end = r.begin + segment.p_memsz;
        }
        return 1;
      },
      &range);
  return range;
}

void* counted(std::size_t bytes, std::size_t alignment, void* caller) {
  static const Range program = program_range();
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  (program.begin <= at && at < program.end ? own : libraries).fetch_add(1, std::memory_order_relaxed);
  void* const p = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

int tandem::test::allocations() { return own.load(); }
int tandem::test::library_allocations() { return libraries.load(); }

void* operator new(std::size_t n) { return counted(n, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new[](std::size_t n) { return counted(n, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new(std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a), __builtin_return_address(0)); }
void* operator new[](std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a), __builtin_return_address(0)); }
// std::stable_sort takes its buffer so.
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  own.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(n ? n : 1);
}
void* operator new[](std::size_t n, const std::nothrow_t& t) noexcept { return operator new(n, t); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
