// What ranks speak to each other by.
#pragma once
#include "base/library_versions.h"

namespace tandem {

LibraryVersion sodium_library();               // ranks/hello.cpp
std::vector<LibraryVersion> rank_libraries();  // with each MPI whose module is found, or why it cannot be used

}  // namespace tandem
