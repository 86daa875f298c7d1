// Intel AMX for bfloat16 on a CPU without it: a library to preload (LD_PRELOAD). CPUID traps (Linux lets a process ask for
// that where the CPU can), and the answer has AMX's bits; the instructions themselves trap as unknown ones and are computed
// here. Slow, of course, but what a library decides for such a CPU, and what its kernels then compute, can be tested
// anywhere. Where CPUID does not trap the process ends at once with code 77.
// Encodings and meaning: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, LDTILECFG to TILEZERO.
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <cstdint>

namespace {

constexpr int tiles = 8, max_rows = 16, row_bytes = 64;
constexpr unsigned long tile_states = 3ul << 17;  // of XSAVE: configuration and data
constexpr int arch_cpuid = 0x1012, arch_get_xcomp_supported = 0x1021, arch_get_xcomp_permitted = 0x1022, arch_request_xcomp = 0x1023;
constexpr int cannot = 77;

long kernel_call(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}

bool let_cpuid(bool run) { return kernel_call(SYS_arch_prctl, arch_cpuid, run ? 1 : 0, 0, 0, 0, 0) == 0; }

void give_up(const char* why, const unsigned char* code) {
  char text[160];
  const int n = snprintf(text, sizeof text, "AMX stand-in: %s (%02x %02x %02x %02x %02x %02x)\n", why, code[0], code[1], code[2], code[3],
                         code[4], code[5]);
  [[maybe_unused]] const auto written = write(2, text, static_cast<std::size_t>(n));
  signal(SIGSEGV, SIG_DFL);
  signal(SIGILL, SIG_DFL);
}

void answer_cpuid(greg_t* r) {
  const auto leaf = static_cast<unsigned>(r[REG_RAX]), part = static_cast<unsigned>(r[REG_RCX]);
  unsigned a, b, c, d;
  let_cpuid(true);
  __cpuid_count(leaf, part, a, b, c, d);
  let_cpuid(false);
  if (leaf == 0 && a < 0x1e) a = 0x1e;
  if (leaf == 7 && part == 0) d |= 1u << 22 | 1u << 24 | 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
  if (leaf == 0x1d) {
    a = part == 0 ? 1 : tiles * max_rows * row_bytes | max_rows * row_bytes << 16;
    b = part == 0 ? 0 : row_bytes | tiles << 16;
    c = part == 0 ? 0 : max_rows;
    d = 0;
  }
  if (leaf == 0x1e) {
    a = c = d = 0;
    b = 16 | row_bytes << 8;
  }
  r[REG_RAX] = a;
  r[REG_RBX] = b;
  r[REG_RCX] = c;
  r[REG_RDX] = d;
  r[REG_RIP] += 2;
}

struct Tiles {
  unsigned char configuration[64];
  alignas(64) unsigned char data[tiles][max_rows][row_bytes];
  int rows(int t) const { return configuration[48 + t]; }
  int bytes(int t) const { return configuration[16 + 2 * t] | configuration[17 + 2 * t] << 8; }
};
thread_local Tiles state __attribute__((tls_model("initial-exec")));

// One VEX-encoded instruction of map 0F38.
struct Instruction {
  int prefix, opcode, reg, rm, v;
  bool in_memory;
  unsigned char* address = nullptr;  // base + displacement
  std::int64_t stride = 0;           // of rows: the index register
  int length;
};

std::int64_t general(const greg_t* r, int number) {
  static constexpr int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return r[order[number]];
}

bool decode(const unsigned char* code, const greg_t* r, Instruction& i) {
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return false;
  const int high_x = code[1] & 0x40 ? 0 : 8, high_b = code[1] & 0x20 ? 0 : 8;
  i.prefix = code[2] & 3;
  i.v = (~code[2] >> 3) & 15;
  i.opcode = code[3];
  const int mod = code[4] >> 6, rm = code[4] & 7;
  i.reg = code[4] >> 3 & 7;
  i.rm = rm;
  i.in_memory = mod != 3;
  i.length = 5;
  if (!i.in_memory) return true;
  std::int64_t address = 0;
  bool has_base = true;
  if (rm == 4) {
    const int sib = code[i.length++], index = (sib >> 3 & 7) | high_x, base = (sib & 7) | high_b;
    if (index != 4) i.stride = general(r, index) << (sib >> 6);
    has_base = !(mod == 0 && (base & 7) == 5);
    if (has_base) address = general(r, base);
  } else if (mod == 0 && rm == 5) {
    return false;  // relative to the instruction: not used for tiles
  } else {
    address = general(r, rm | high_b);
  }
  if (mod == 1) {
    address += static_cast<signed char>(code[i.length++]);
  } else if (mod == 2 || !has_base) {
    std::int32_t displacement;
    memcpy(&displacement, code + i.length, 4);
    address += displacement;
    i.length += 4;
  }
  i.address = reinterpret_cast<unsigned char*>(address);
  return true;
}

// C[m][n] += Σ over k of A[m][2k]·B[k][2n] + A[m][2k+1]·B[k][2n+1]
void dot_bf16(int to, int a, int b) {
  constexpr int lanes = row_bytes / 4;
  alignas(64) float even[max_rows][lanes], odd[max_rows][lanes];  // of B
  const auto split = [](const unsigned char* row, float* first, float* second) {
    for (int n = 0; n < lanes; ++n) {
      std::uint32_t pair;
      memcpy(&pair, row + 4 * n, 4);
      const std::uint32_t low = pair << 16, high = pair & 0xffff0000;
      memcpy(first + n, &low, 4);
      memcpy(second + n, &high, 4);
    }
  };
  const int depth = state.bytes(a) / 4;
  for (int k = 0; k < depth; ++k) split(state.data[b][k], even[k], odd[k]);
  for (int m = 0; m < state.rows(to); ++m) {
    alignas(64) float sum[lanes], left[lanes], right[lanes];
    memcpy(sum, state.data[to][m], row_bytes);
    split(state.data[a][m], left, right);
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < lanes; ++n) sum[n] += left[k] * even[k][n] + right[k] * odd[k][n];
    memcpy(state.data[to][m], sum, static_cast<std::size_t>(state.bytes(to)));
  }
}

bool execute(const Instruction& i) {
  enum { none, p66, pf3, pf2 };
  if (i.opcode == 0x49 && i.prefix == none && i.in_memory) {
    memset(&state, 0, sizeof state);
    memcpy(state.configuration, i.address, sizeof state.configuration);
  } else if (i.opcode == 0x49 && i.prefix == p66 && i.in_memory) {
    memcpy(i.address, state.configuration, sizeof state.configuration);
  } else if (i.opcode == 0x49 && i.prefix == none) {
    memset(&state, 0, sizeof state);
  } else if (i.opcode == 0x49 && i.prefix == pf2) {
    memset(state.data[i.reg], 0, sizeof state.data[i.reg]);
  } else if (i.opcode == 0x4b && (i.prefix == pf2 || i.prefix == p66)) {
    memset(state.data[i.reg], 0, sizeof state.data[i.reg]);
    for (int row = 0; row < state.rows(i.reg); ++row)
      memcpy(state.data[i.reg][row], i.address + row * i.stride, static_cast<std::size_t>(state.bytes(i.reg)));
  } else if (i.opcode == 0x4b && i.prefix == pf3) {
    for (int row = 0; row < state.rows(i.reg); ++row)
      memcpy(i.address + row * i.stride, state.data[i.reg][row], static_cast<std::size_t>(state.bytes(i.reg)));
  } else if (i.opcode == 0x5c && i.prefix == pf3 && !i.in_memory) {
    dot_bf16(i.reg, i.rm, i.v);
  } else {
    return false;
  }
  return true;
}

void on_segv(int, siginfo_t*, void* context) {
  greg_t* const r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(r[REG_RIP]);
  if (code && code[0] == 0x0f && code[1] == 0xa2) return answer_cpuid(r);
  signal(SIGSEGV, SIG_DFL);  // a real one: it happens again and ends the process
}

void on_ill(int, siginfo_t*, void* context) {
  greg_t* const r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(r[REG_RIP]);
  Instruction i{};
  if (!decode(code, r, i) || !execute(i)) return give_up("an instruction that it does not know", code);
  r[REG_RIP] += i.length;
}

__attribute__((constructor)) void begin() {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = on_segv;
  sigaction(SIGSEGV, &action, nullptr);
  action.sa_sigaction = on_ill;
  sigaction(SIGILL, &action, nullptr);
  if (let_cpuid(false)) return;
  constexpr char why[] = "AMX stand-in: CPUID does not trap here (no cpuid_fault among the CPU's flags)\n";
  [[maybe_unused]] const auto written = write(2, why, sizeof why - 1);
  _exit(cannot);
}

}  // namespace

// The C library's syscall(): programs ask the system for leave to use AMX through it.
extern "C" long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_arch_prctl && a[0] == arch_request_xcomp) return 0;
  if (number == SYS_arch_prctl && (a[0] == arch_get_xcomp_supported || a[0] == arch_get_xcomp_permitted)) {
    *reinterpret_cast<unsigned long*>(a[1]) = 0xe7 | tile_states;
    return 0;
  }
  const long result = kernel_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}
