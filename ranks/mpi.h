// MPI, which starts the ranks of a cluster and knows its networks. Its library is opened at run time, by a module of its own for each
// of the two kinds whose binary interfaces differ.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ranks/pipe.h"

namespace tandem {

// Its functions may be called from several threads.
class Mpi {
 public:
  virtual ~Mpi() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual int ranks_here() const = 0;       // on this machine
  virtual std::string library() const = 0;  // "Open MPI 4.1.4"
  // Rank 0's bytes in every rank, which calls it too; false where they do not come within the time.
  virtual bool broadcast(std::span<std::byte> bytes, double timeout_seconds) = 0;
  // Between this rank and another, which opens it too, with the same number.
  virtual std::unique_ptr<Pipe> open(int rank, int number) = 0;
  // Lets messages move: what no call does moves by itself, but later.
  virtual void progress() = 0;
  // The last call. Together: all ranks make it, and MPI ends, which may wait for them; else this rank has failed, and waits for nobody.
  virtual void leave(bool together) = 0;
};

// Of the module libtandem_mpi_KIND.so ("openmpi", "mpich"; base/module.h), which enters MPI. Lives as long as the process.
// Null where there is none, and why.
Mpi* open_mpi(std::string_view kind, std::string& reason);

}  // namespace tandem
