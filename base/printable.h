// Text of unknown origin (names and paths in files, messages of other processes) as it may be shown: it cannot move a
// terminal's cursor, hide what stands beside it, or begin a line that looks like another message.
//
// Hidden characters: control characters, ends of lines and paragraphs, and those that Unicode has shown as nothing
// (Default_Ignorable_Code_Point: no width, direction of writing, fillers), which make two names look alike.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

enum class Lines { escaped, kept };  // kept: line ends and tabs stay, as in whole messages

// `text` with each byte of a hidden character, and of what is no UTF-8, as \xNN. What is shown already stays as it is:
// doing it twice changes nothing.
std::string printable(std::string_view text, Lines lines = Lines::escaped);
// A whole JSON text (UTF-8) with hidden characters as \uNNNN: the same values, and `printable` finds nothing left to hide.
std::string printable_json(std::string_view json);

// Any bytes as UTF-8 and back, for files that hold only text (JSON, an ONNX file's metadata). A byte that is no UTF-8 becomes
// \xNN; so that this means nothing else, a backslash before such a \xNN becomes \x5c. Other text stays as it is.
std::string as_text(std::string_view bytes);
std::string from_text(std::string_view text);
// A cell of CSV (RFC 4180): as_text, hidden characters as \xNN, in quotes where it must be. `from_text` gives the bytes back.
std::string csv_cell(std::string_view bytes);
bool is_utf8(std::string_view bytes);

}  // namespace tandem
