// Options of several processes that run one plan together.
#pragma once
#include "options/flag.h"

namespace tandem {

// Who carries what devices of different processes exchange.
enum class Collectives { automatic, tcp, chain, pairs, mpi };
inline constexpr FlagWord<Collectives> collectives_words[] = {{"auto", Collectives::automatic},
                                                              {"tcp", Collectives::tcp},
                                                              {"chain", Collectives::chain},
                                                              {"pairs", Collectives::pairs},
                                                              {"mpi", Collectives::mpi}};

struct RankFlags : FlagGroup {
  constexpr RankFlags() : FlagGroup("several processes") {}
  Flag<std::optional<std::int64_t>> processes{*this, "processes", "N", "", "start N ranks on this machine, each with its share of --devices (default 1; of train on several GPUs one each)", {.scope = FlagScope::call}};
  Flag<std::string> rank{*this, "rank", "N", "", "which rank this process is (mpirun, srun and torchrun tell by themselves)", {.scope = FlagScope::call}};
  Flag<std::string> world_size{*this, "world-size", "N", "", "how many ranks there are", {.scope = FlagScope::call}};
  Flag<std::string> address{*this, "address", "HOST:PORT", "", "where rank 0 listens, or unix:PATH (default $MASTER_ADDR:$MASTER_PORT, under torchrun the next port)", {.scope = FlagScope::call}};
  Flag<double> rank_timeout{*this, "rank-timeout", "SECONDS", "120", "how long to wait for another rank", positive};
  Flag<Collectives> collectives{*this, "collectives", "NAME", "auto", "transport between CPU devices of several ranks: chain (sockets from neighbour to neighbour), pairs (sockets between all), tcp (the faster of these, as measured), mpi, or auto (mpi if mpirun started ranks on several machines without an address, else tcp)", one_of<collectives_words>, {.scope = FlagScope::call}};
  Flag<std::string> secret_file{*this, "secret-file", "FILE", "", "what all ranks know, so that nobody else takes a rank's place (or its text in $TANDEM_SECRET)", {.scope = FlagScope::call}};
};
inline constexpr RankFlags rank_flags;

}  // namespace tandem
