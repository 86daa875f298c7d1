// The whole program, which libtandem.so holds: bin/tandem only calls it.
#pragma once

namespace tandem {

// What `main` was given. Returns the exit code.
int run_program(int argc, char** argv);

}  // namespace tandem
