#include "options/values.h"

#include "options/text.h"

namespace tandem {

bool OptionValues::given(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  return found != values_.end() && found->second.given;
}

std::vector<const FlagRow*> OptionValues::given() const {
  std::vector<const FlagRow*> rows;
  for (const auto& [name, value] : values_)
    if (value.given) rows.push_back(value.row);
  return rows;
}

std::string OptionValues::text(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  if (found == values_.end()) return std::string(flag.absent);
  return found->second.meaning.empty() ? found->second.text : found->second.meaning;
}

void OptionValues::mean(const FlagRow& flag, std::string text, std::string why) {
  Value& value = values_.emplace(flag.name, Value{&flag, std::string(flag.absent)}).first->second;
  value.meaning = std::move(text);
  value.why = std::move(why);
}

std::string OptionValues::why(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  return found == values_.end() ? "" : found->second.why;
}

void OptionValues::set(const FlagRow& flag, std::string text) {
  values_[flag.name] = {&flag, std::move(text), true};
}
void OptionValues::choose(const FlagRow& flag, std::string text) {
  values_[flag.name] = {&flag, std::move(text), false, true};
}

Json OptionValues::resolved(bool (*wanted)(FlagScope)) const {
  Json::Object object;
  for (const auto& [name, value] : values_)
    if (wanted(value.row->traits.scope) && !value.text.empty() && !value.chosen) object.emplace_back(name, json_of_text(value.text));
  return object;
}

}  // namespace tandem
