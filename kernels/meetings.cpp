#include "kernels/meetings.h"

#include <algorithm>

namespace tandem {

std::vector<std::size_t> Meetings::here(const ExchangeSpec& exchange) const {
  std::vector<std::size_t> members;
  for (std::size_t m = 0; m < exchange.members.size(); ++m)
    if (const int rank = exchange.members[m]; rank >= first_ && rank < first_ + count_) members.push_back(m);
  return members;
}

Meeting& Meetings::of(const ExchangeSpec& exchange) {
  const std::scoped_lock hold(lock_);
  Place& place = places_[exchange.channel];
  if (!place.meeting) {
    for (const std::size_t m : here(exchange)) place.ranks.push_back(exchange.members[m]);
    place.meeting = std::make_unique<Meeting>(place.ranks, timeout_, name_of(exchange.kind));
    if (aborted_) place.meeting->abort(reason_);
  }
  return *place.meeting;
}

void Meetings::meet(int channel, int rank) {
  const Place& place = places_.at(channel);
  place.meeting->meet(static_cast<int>(std::ranges::find(place.ranks, rank) - place.ranks.begin()));
}

void Meetings::abort(const std::string& reason) {
  const std::scoped_lock hold(lock_);
  if (!aborted_) reason_ = reason;  // the first is the cause
  aborted_ = true;
  for (const auto& [channel, place] : places_) place.meeting->abort(reason_);
}

}  // namespace tandem
