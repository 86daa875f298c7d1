// Counts heap allocations by operator new, of all threads of this test program.
#pragma once

namespace tandem::test {

int allocations();          // so far, by this program's code
int library_allocations();  // so far, by shared libraries' code (oneDNN builds a map of arguments in every run)

}  // namespace tandem::test
