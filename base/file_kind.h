// What a file is by how it begins, for errors about files that are not what was expected.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

// "a PNG image", "a Git LFS pointer in place of the file (git lfs pull fetches it)", "text"; "" where it is of no kind known here.
// `bytes`: the file's, 512 of them are enough.
std::string kind_of_file(std::string_view bytes);
// ": it is a PNG image" or "": what follows an error's own words.
std::string it_is(std::string_view bytes);

// Whether it is what a server or Git leaves in place of a file, and text all the same.
bool stands_in(std::string_view bytes);

}  // namespace tandem
