#include "runtime/step_trace.h"

#include <algorithm>
#include <chrono>

namespace tandem {
namespace {

void fill_gaps(const DeviceProgram& program, Timeline& line) {
  std::vector<double> last;  // ends, by stream
  for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
    const auto stream = at(program.steps[s].stream);
    if (last.size() <= stream) last.resize(stream + 1, 0);
    if (line.ends[s] == 0) line.begins[s] = line.ends[s] = last[stream];
    last[stream] = line.ends[s];
    line.seconds = std::max(line.seconds, line.ends[s]);
  }
  line.streams = static_cast<int>(last.size());
}

}  // namespace

StepTrace::StepTrace(const Plan& flat) : flat_(flat), lines_(flat.devices.size()) {
  for (std::size_t d = 0; d < lines_.size(); ++d) {
    lines_[d].begins.assign(flat.program_of(d).steps.size(), 0.0);
    lines_[d].ends = lines_[d].begins;
  }
}

void StepTrace::begin(World* world) {
  if (world) world->any(false);
  begin_ = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StepTrace::set(std::size_t device) {
  for (auto* times : {&lines_[device].begins, &lines_[device].ends})
    for (double& time : *times)
      if (time != 0) time -= begin_;
}

std::vector<Timeline> StepTrace::take(World* world) {
  std::vector<double> all;
  for (const Timeline& line : lines_)
    for (const auto* times : {&line.begins, &line.ends}) all.insert(all.end(), times->begin(), times->end());
  if (world) world->gather(std::as_writable_bytes(std::span(all)));
  auto from = all.cbegin();
  for (std::size_t d = 0; d < lines_.size(); ++d) {
    for (auto* times : {&lines_[d].begins, &lines_[d].ends}) {
      std::copy_n(from, times->size(), times->begin());
      from += std::ssize(*times);
    }
    fill_gaps(flat_.program_of(d), lines_[d]);
  }
  return std::move(lines_);
}

}  // namespace tandem
