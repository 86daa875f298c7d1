// What a user may have meant by a name that is unknown.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// The candidate that `word` is another name of ("xavier"), or that it reads like: the same but for case and hyphens, the
// fewest edits (at most a third of the word), or one that holds the word. Empty where none does.
std::string nearest(std::string_view word, std::span<const std::string> candidates);
// ", did you mean 'x'?" or, where nothing is near, " (known: a, b, c)".
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace tandem
