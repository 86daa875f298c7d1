// Memory that cannot be had, with what it was for: std::bad_alloc says neither.
#pragma once
#include <malloc.h>

#include <cstdint>
#include <new>
#include <stdexcept>

#include "base/error.h"

namespace tandem {

// Gives memory that was freed back to the system where the C library keeps it (glibc).
inline void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// What `make` gives. Fails (device) with the bytes and what they are for where there is no memory for them.
template <class Make, class... What>
decltype(auto) allocate(std::uint64_t bytes, Make&& make, const What&... what) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    fail(ExitCode::device, "out of memory: ", bytes, " bytes are needed for ", what...);
  } catch (const std::length_error&) {  // more than any machine has
    fail(ExitCode::device, "out of memory: ", bytes, " bytes are needed for ", what...);
  }
}

// The same for work whose memory is not known beforehand: "out of memory while planning 'lenet'".
template <class Work, class... What>
decltype(auto) within_memory(Work&& work, const What&... what) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    fail(ExitCode::device, "out of memory while ", what...);
  } catch (const std::length_error&) {
    fail(ExitCode::device, "out of memory while ", what...);
  }
}

}  // namespace tandem
