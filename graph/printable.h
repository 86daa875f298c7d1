// Text of unknown origin (names and paths in files, messages of other processes) as it may be shown: it cannot move a
// terminal's cursor, hide what stands beside it, or begin a line that looks like another message.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

enum class Lines { escaped, kept };  // kept: line ends and tabs stay, as in whole messages

// `text` with each byte of a control character, of a sign that turns the direction of writing or ends a line, and of what
// is no UTF-8 as \xNN. What is shown already stays as it is: doing it twice changes nothing.
std::string printable(std::string_view text, Lines lines = Lines::escaped);

}  // namespace tandem
