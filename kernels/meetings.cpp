#include "kernels/meetings.h"

#include <algorithm>

namespace tandem {

void Meetings::add(const ExchangeSpec& exchange) {
  const std::scoped_lock hold(lock_);
  Place& place = places_[exchange.channel];
  if (place.meeting) return;
  for (const int rank : exchange.members)
    if (rank >= first_ && rank < first_ + count_) place.ranks.push_back(rank);
  place.meeting = std::make_unique<Meeting>(place.ranks, timeout_, name_of(exchange.kind));
  if (aborted_) place.meeting->abort(reason_);
}

void Meetings::meet(int channel, int rank) {
  Place& place = places_.at(channel);
  place.meeting->meet(static_cast<int>(std::ranges::find(place.ranks, rank) - place.ranks.begin()));
}

void Meetings::abort(const std::string& reason) {
  const std::scoped_lock hold(lock_);
  if (!aborted_) reason_ = reason;  // the first is the cause
  aborted_ = true;
  for (auto& [channel, place] : places_) place.meeting->abort(reason_);
}

}  // namespace tandem
