#include "cli/program.h"

int main(int argc, char** argv) { return tandem::run_program(argc, argv); }
