// Threads that wait for a word to change: a brief spin, then sleep. Neither locks nor allocates.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

// Whose threads wait on a word: several processes' where it lies in memory that they share.
enum class Waiters { this_process, all_processes };

// Waits until `word` is no longer `value`; false where that took longer than the timeout (0 or less: no limit).
bool wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t value, int spins, double timeout_seconds,
                     Waiters of = Waiters::this_process);
// Wakes all threads that wait on the word. The change comes first.
void wake_all(std::atomic<std::uint32_t>& word, Waiters of = Waiters::this_process);

// How long to spin before sleeping when so many threads want to run: not at all with fewer cores than threads. Threads of this process
// have the cores that it may use, those of several processes the machine's.
int spins_for(int threads, Waiters of = Waiters::this_process);

}  // namespace tandem
