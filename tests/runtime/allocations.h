// Counts heap allocations by operator new, of all threads of this test program.
#pragma once

namespace tandem::test {

int allocations();  // so far

}  // namespace tandem::test
