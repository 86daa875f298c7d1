#include "kernels/cuda/collectives/nccl_calls.h"

#include <algorithm>

#include "kernels/device.h"
#include "kernels/exchange_rounds.h"

namespace tandem::cuda {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return ncclFloat32;
    case DType::float64: return ncclFloat64;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
    default: fail(ExitCode::communication, "sum of ", dtype, ": expected a floating-point type");
  }
}

bool has_equal_parts(const ExchangeSpec& s) {
  return std::ranges::all_of(s.parts, [&](std::int64_t n) { return n == s.parts[0]; });
}

ncclResult_t queue_one(const NcclCall& c, const ExchangeSpec& s, const std::byte* gives, std::byte* gets, ncclComm_t comm,
                       cudaStream_t stream) {
  const std::byte* const from = gives ? gives + c.from : nullptr;
  std::byte* const to = gets ? gets + c.to : nullptr;
  const auto count = static_cast<std::size_t>(c.count);
  const ncclRedOp_t fold = s.kind == ExchangeKind::all_max ? ncclMax : ncclSum;
  switch (c.op) {
    case NcclCall::all_reduce: return ncclAllReduce(to, to, count, nccl_type(s.dtype), fold, comm, stream);
    case NcclCall::reduce_scatter: return ncclReduceScatter(from, to, count, nccl_type(s.dtype), fold, comm, stream);
    case NcclCall::reduce: return ncclReduce(from, to, count, nccl_type(s.dtype), fold, c.peer, comm, stream);
    case NcclCall::all_gather: return ncclAllGather(from, to, count, ncclInt8, comm, stream);
    case NcclCall::broadcast:  // a root that keeps nothing gives in place
      return ncclBroadcast(from, to ? to : const_cast<std::byte*>(from), count, ncclInt8, c.peer, comm, stream);
    case NcclCall::send: return ncclSend(from, count, ncclInt8, c.peer, comm, stream);
    case NcclCall::receive: return ncclRecv(to, count, ncclInt8, c.peer, comm, stream);
  }
  return ncclInternalError;
}

bool has_failed(ncclResult_t status) { return status != ncclSuccess && status != ncclInProgress; }

}  // namespace

bool uses_all(const ExchangeSpec& spec, int ranks) {
  bool all = std::ssize(spec.members) == ranks;
  for (int r = 0; all && r < ranks; ++r) all = spec.members[static_cast<std::size_t>(r)] == r;
  return all || spec.kind == ExchangeKind::send;
}

std::vector<NcclCall> nccl_calls(const ExchangeSpec& s, std::size_t self, int ranks) {
  if (const std::string fault = fault_of(s); !fault.empty())
    fail(ExitCode::communication, name_of(s.kind), " among ", s.members.size(), " GPUs: ", fault);
  if (s.elements == 0) return {};
  const bool all = uses_all(s, ranks);
  const auto rank_of = [&](std::size_t member) { return all ? s.members[member] : static_cast<int>(member); };
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  const Round& round = rounds_of(s.kind)[0];
  std::vector<NcclCall> calls;
  const auto each = [&](NcclCall::Op op, std::int64_t unit, const auto& leg_with) {
    for (std::size_t m = 0; m < s.members.size(); ++m)
      if (const Leg leg = leg_with(m); leg.elements > 0)
        calls.push_back({op, leg.from * size, leg.to * size, leg.elements * unit, rank_of(m)});
  };
  switch (s.kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::all_max: return {{NcclCall::all_reduce, 0, 0, s.elements, 0}};
    case ExchangeKind::reduce: return {{NcclCall::reduce, 0, 0, s.elements, rank_of(0)}};
    case ExchangeKind::broadcast: return {{NcclCall::broadcast, 0, 0, s.elements * size, rank_of(0)}};
    case ExchangeKind::reduce_scatter:
      if (has_equal_parts(s)) return {{NcclCall::reduce_scatter, 0, 0, s.parts[0], 0}};
      each(NcclCall::reduce, 1, [&](std::size_t m) { return round.leg(s, self, m); });
      return calls;
    case ExchangeKind::all_gather:
      if (has_equal_parts(s)) return {{NcclCall::all_gather, 0, 0, s.parts[0] * size, 0}};
      each(NcclCall::broadcast, size, [&](std::size_t m) { return round.leg(s, m, self); });
      return calls;
    case ExchangeKind::send:
    case ExchangeKind::all_to_all: {
      const auto moved = [&](std::size_t m, Leg leg) { return m == self && s.kind == ExchangeKind::send ? Leg{} : leg; };
      each(NcclCall::send, size, [&](std::size_t m) { return moved(m, round.leg(s, self, m)); });
      each(NcclCall::receive, size, [&](std::size_t m) { return moved(m, round.leg(s, m, self)); });
      return calls;
    }
  }
  fail("unknown exchange");
}

ncclResult_t queue(std::span<const NcclCall> calls, const ExchangeSpec& spec, const std::byte* gives, std::byte* gets, ncclComm_t comm,
                   cudaStream_t stream) {
  if (calls.size() == 1) return queue_one(calls[0], spec, gives, gets, comm, stream);
  ncclResult_t status = ncclGroupStart();
  for (const NcclCall& c : calls)
    if (!has_failed(status)) status = queue_one(c, spec, gives, gets, comm, stream);
  const ncclResult_t ended = ncclGroupEnd();
  return has_failed(status) ? status : ended;
}

}  // namespace tandem::cuda
