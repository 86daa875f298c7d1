// The libraries that tandem is linked with. Each folder names its own, as their headers are for it alone; cli/version.cpp prints them.
#pragma once
#include <string>
#include <vector>

namespace tandem {

struct LibraryVersion {
  std::string name;     // as it calls itself
  std::string version;  // of what is loaded, or of the headers where the library does not say it
};

LibraryVersion json_library();                 // base/json.cpp
std::vector<LibraryVersion> base_libraries();  // {fmt}, zlib, JSON

}  // namespace tandem
