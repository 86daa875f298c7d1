// The walk over a product's blocks: panels of b are packed by all threads together and kept while rows of a pass by them; where a has
// few rows, the threads share those and go through b, each its columns: what another core has packed is slow to come by. Of long sums of
// few elements each thread takes pieces. Up to four rows go through b where it lies, if its columns' numbers lie together.
#include "kernels/cpu/native/products.h"

#include "kernels/cpu/isa.h"

namespace tandem::native {
namespace {

constexpr std::int64_t most_depth = 1024;      // numbers of a sum at a time: panels of both sides fit the second cache
constexpr std::int64_t chunk_bytes = 1 << 20;  // of packed b: half of a large second cache
constexpr std::int64_t line_numbers = 160;     // of a's lines that lie side by side, read together
constexpr std::int64_t slice_columns = 16;     // the fewest of a panel that a thread takes
constexpr std::int64_t few_rows = 256;         // of a: the other side's packing is much of the work, and they fit the second cache
constexpr std::int64_t block_rows = 8;         // and slice_columns: what of c a thread takes at least
constexpr std::int64_t piece_numbers = 256;    // of a long sum
constexpr std::int64_t most_pieces = 64;
constexpr std::int64_t fewest_numbers = 64;    // of a sum of lanes, which are summed themselves at its end

std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
constexpr std::int64_t float_bytes = sizeof(float);

// Where in a side its block begins.
const void* at(const void* data, const Side& side, std::int64_t line, std::int64_t step) {
  const std::int64_t elements = line * side.line + step * side.step;
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(side.narrow ? sizeof(std::uint16_t) : sizeof(float));
}

void narrow_numbers(void* to, const float* from, std::int64_t n) { vector_table().narrow_bfloat16(to, from, nullptr, nullptr, n, nullptr); }

}  // namespace

// How a product is cut, and where its parts lie in the workspace.
struct MatrixProduct::Cut {
  const MatrixProduct& p;
  const vector::Table& table = vector_table();
  const vector::Products& loops = *table.products;
  std::int64_t height = loops.panel_rows, width = loops.panel_columns;
  // Where a sum has more pieces than c has blocks, the pieces are summed apart. That goes by the sizes alone, and so do the results.
  std::int64_t pieces = std::min(parts_of(p.inner, piece_numbers), most_pieces);
  bool by_pieces = p.inner > most_depth && pieces > parts_of(p.rows, block_rows) * parts_of(p.columns, slice_columns) && !p.sums;
  bool as_it_lies = p.rows <= table.row_products->most_rows && p.a.step == 1 && p.b.step == 1 && p.inner >= fewest_numbers && !p.sums &&
                    !by_pieces;
  std::int64_t depths = by_pieces ? pieces : std::max<std::int64_t>(1, parts_of(p.inner, most_depth));
  std::int64_t depth = parts_of(p.inner, depths);                      // at most so many at a time
  std::int64_t panels = parts_of(p.columns, width);                    // of b
  std::int64_t down = parts_of(p.rows, height);                        // tiles
  // panels at a time
  std::int64_t chunk =
      std::clamp<std::int64_t>(chunk_bytes / std::max<std::int64_t>(1, depth* width* float_bytes), 1, std::max<std::int64_t>(1, panels));
  // Of float32 numbers in rows a tile is read where it lies.
  bool direct = !p.a.narrow && p.a.step == 1 && !p.sums;
  bool widened = p.a.narrow && p.a.step == 1 && !p.sums;               // 16-bit ones stay rows
  // Rows of tile t: whole tiles where they are packed, else as even as can be.
  Range rows_of(std::int64_t t) const {
    return direct || widened ? part_of(p.rows, t, down) : Range{t * height, std::min(p.rows, (t + 1) * height)};
  }
  // Tiles of a that are packed together, and taken together by a thread.
  std::int64_t most_tiles = p.a.line == 1 ? std::max<std::int64_t>(1, line_numbers / height) : 1;
  std::int64_t takes =
      std::clamp<std::int64_t>(parts_of(parts_of(down, most_tiles), p.threads) * p.threads, 1, std::max<std::int64_t>(1, down));
  std::int64_t tiles = parts_of(down, takes);
  // of tiles, where b has few panels
  std::int64_t groups =
      std::clamp<std::int64_t>(parts_of(p.threads, std::max<std::int64_t>(1, panels)), 1, std::max<std::int64_t>(1, down));
  // of a panel, where these are too few still
  std::int64_t slices =
      std::clamp<std::int64_t>(parts_of(p.threads, std::max<std::int64_t>(1, panels* groups)), 1, parts_of(width, slice_columns));
  std::int64_t slice = parts_of(parts_of(width, slices), slice_columns) * slice_columns;
  bool by_rows = (panels < p.threads && down >= std::min<std::int64_t>(p.threads, panels * groups * slices)) ||
                 (down >= 2 * p.threads && p.rows > few_rows);
  std::int64_t panel_a = to_line(height * depth * float_bytes), panel_b = to_line(width * depth * float_bytes);
  bool gathers = p.narrow_c && depths > 1 && !by_pieces && !as_it_lies;  // sums that do not fit c's type until they are whole

  // offsets
  std::int64_t a = 0, b = a + (direct || as_it_lies ? 0 : by_pieces ? p.threads * down : by_rows ? p.threads * tiles : down) * panel_a;
  std::int64_t bias = b + (as_it_lies ? 0 : by_pieces || !by_rows ? p.threads : chunk) * panel_b;
  std::int64_t sums = bias + (p.narrow_c ? to_line(p.columns * float_bytes) : 0);
  std::int64_t c = sums + (p.narrow_c ? to_line(p.rows * float_bytes) : 0);
  std::int64_t piece = to_line(p.rows * p.columns * float_bytes);  // of c in float32
  std::int64_t bytes = c + (by_pieces ? depths : gathers ? 1 : 0) * piece;
};

MatrixProduct::Cut MatrixProduct::cut() const { return {*this}; }
std::int64_t MatrixProduct::workspace() const { return cut().bytes; }

// One run: its operands, and the buffers in the workspace.
struct MatrixProduct::Run {
  const MatrixProduct& p;
  const Cut cut;
  const void *a, *b;
  void* c;
  const float* bias;
  float *totals, *whole;  // sums; c in float32 until it is whole
  std::byte* workspace;
  std::int64_t k = 0, deep = 0;  // the numbers of each sum at hand
  std::int64_t first = 0;        // where these sums begin

  float* floats(std::int64_t offset) const { return reinterpret_cast<float*>(workspace + offset); }

  // Tiles from row `top` on, up to row `end`, one panel after another at `to`.
  void pack_a(std::int64_t top, std::int64_t end, float* to, bool summed) const {
    if (cut.widened) {
      for (std::int64_t i = top; i < end; ++i)
        cut.table.widen_bfloat16(to + (i - top) * deep, at(a, p.a, i, k), nullptr, nullptr, deep, nullptr);
      return;
    }
    cut.loops.pack({at(a, p.a, top, k), p.a.narrow, p.a.line, p.a.step, end - top, deep, cut.height, to, cut.panel_a / float_bytes,
                    summed ? totals + top : nullptr});
  }
  Range columns_of(std::int64_t first, std::int64_t end) const { return {first * cut.width, std::min(end * cut.width, p.columns)}; }
  // Columns of b, panel after panel, numbers [from, to) of their sums.
  void pack_b(const Range& columns, std::int64_t from, std::int64_t to, float* at_first) const {
    cut.loops.pack({at(b, p.b, columns.begin, k + from), p.b.narrow, p.b.line, p.b.step, columns.end - columns.begin, to - from, cut.width,
                    at_first + from * cut.width, cut.panel_b / float_bytes});
  }
  // Tile t, which lies at `packed` (or where it is), and columns of one panel of b.
  // `turn`: how many panels have passed this tile; rows of the tile below are fetched, two at each turn.
  void tile(std::int64_t t, const Range& columns, const float* packed, const float* pb, std::int64_t turn) const {
    const Range covered = cut.rows_of(t);
    const std::int64_t top = covered.begin, end = covered.end;
    const std::int64_t rows = end - top, left = columns.begin;
    const bool last = k + deep == p.inner && !cut.by_pieces, narrow = p.narrow_c && !whole;
    const std::int64_t c_row = whole ? p.columns : p.c_row, element = top * c_row + left;
    void* const to = whole
                         ? static_cast<void*>(whole + element)
                         : static_cast<std::byte*>(c) + element * static_cast<std::int64_t>(narrow ? sizeof(std::uint16_t) : sizeof(float));
    const float* const pa = cut.direct ? static_cast<const float*>(at(a, p.a, top, k)) : packed;
    const auto below = [&](std::int64_t i) {
      return cut.direct ? at(a, p.a, std::min(p.rows - 1, end + (2 * turn + i) % cut.height), k) : pa;
    };
    const std::int64_t a_row = cut.direct ? p.a.line : cut.widened ? deep : 0;
    cut.loops.panels({pa,
                      pb,
                      to,
                      rows,
                      columns.end - left,
                      deep,
                      a_row,
                      1,
                      0,
                      c_row,
                      bias ? bias + left : nullptr,
                      k > first,
                      p.relu && last,
                      narrow,
                      {below(0), below(1)}});
  }

  // The threads pack b together, then each goes over rows of its own.
  void by_rows(int parts) const {
    for (std::int64_t first = 0; first < cut.panels; first += cut.chunk) {
      const std::int64_t count = std::min(cut.chunk, cut.panels - first);
      const auto panel = [&](std::int64_t i) { return floats(cut.b + i * cut.panel_b); };
      parallel(parts, [&](int part) {
        if (p.b.line == 1) {
          const Range mine = part_of(deep, part, parts);
          constexpr std::int64_t together = 8;  // panels; more lines of them would not stay in the first cache until they are whole
          for (std::int64_t i = 0; i < count; i += together)
            pack_b(columns_of(first + i, first + std::min(count, i + together)), mine.begin, mine.end, panel(i));
        } else {
          const Range mine = part_of(count, part, parts);
          if (mine.begin < mine.end) pack_b(columns_of(first + mine.begin, first + mine.end), 0, deep, panel(mine.begin));
        }
      });
      share(parts, cut.takes, [&](int part, std::int64_t take) {
        const Range tiles = part_of(cut.down, take, cut.takes);
        float* const pa = floats(cut.a + (cut.direct ? 0 : part * cut.tiles * cut.panel_a));
        if (!cut.direct) pack_a(cut.rows_of(tiles.begin).begin, cut.rows_of(tiles.end - 1).end, pa, totals && first == 0);
        for (std::int64_t t = tiles.begin; t < tiles.end; ++t)
          for (std::int64_t n = 0; n < count; ++n)
            tile(t, columns_of(first + n, first + n + 1), pa + (t - tiles.begin) * cut.panel_a / float_bytes, panel(n), n);
      });
    }
  }

  // The threads pack a together, then each goes over panels of b of its own, or slices of them.
  void by_columns(int parts) const {
    const auto packed = [&](std::int64_t t) { return floats(cut.a + (cut.direct ? 0 : t * cut.panel_a)); };
    if (!cut.direct)
      parallel(parts, [&](int part) {
        const Range mine = part_of(cut.down, part, parts);
        for (std::int64_t t = mine.begin; t < mine.end; ++t) pack_a(cut.rows_of(t).begin, cut.rows_of(t).end, packed(t), totals != nullptr);
      });
    share(parts, cut.panels * cut.slices * cut.groups, [&](int part, std::int64_t i) {
      const std::int64_t panel = i / cut.groups / cut.slices;
      Range columns = columns_of(panel, panel + 1);
      columns.begin += i / cut.groups % cut.slices * cut.slice;
      columns.end = std::min(columns.end, columns.begin + cut.slice);
      if (columns.begin >= columns.end) return;
      float* const pb = floats(cut.b + part * cut.panel_b);
      pack_b(columns, 0, deep, pb);
      const Range group = part_of(cut.down, i % cut.groups, cut.groups);
      for (std::int64_t t = group.begin; t < group.end; ++t) tile(t, columns, packed(t), pb, panel);
    });
  }

  // Columns are read once, which few rows are not worth a copy of.
  void as_they_lie(int parts) const {
    const std::int64_t most = slice_columns;
    share(parts, parts_of(p.columns, most), [&](int, std::int64_t i) {
      const std::int64_t left = i * most, size = p.narrow_c ? sizeof(std::uint16_t) : sizeof(float);
      cut.table.row_products->run({a, at(b, p.b, left, 0), static_cast<std::byte*>(c) + left * size, bias ? bias + left : nullptr, p.rows,
                                   std::min(most, p.columns - left), p.inner, p.a.line, p.b.line, p.c_row, p.a.narrow, p.b.narrow,
                                   p.narrow_c, p.relu});
    });
  }

  // Each thread sums pieces of its own, all elements of each; then the pieces are added in order.
  void by_pieces(int parts) {
    const auto piece = [&](std::int64_t i) { return floats(cut.c + i * cut.piece); };
    share(parts, cut.depths, [&](int part, std::int64_t i) {
      const Range numbers = part_of(p.inner, i, cut.depths);
      Run mine = *this;
      mine.k = mine.first = numbers.begin;
      mine.deep = numbers.end - numbers.begin;
      mine.whole = piece(i);
      if (i > 0) mine.bias = nullptr;
      const auto packed = [&](std::int64_t t) { return floats(cut.a + (cut.direct ? 0 : (part * cut.down + t) * cut.panel_a)); };
      if (!cut.direct)
        for (std::int64_t t = 0; t < cut.down; ++t) mine.pack_a(cut.rows_of(t).begin, cut.rows_of(t).end, packed(t), false);
      float* const pb = floats(cut.b + part * cut.panel_b);
      for (std::int64_t n = 0; n < cut.panels; ++n) {
        const Range columns = columns_of(n, n + 1);
        mine.pack_b(columns, 0, mine.deep, pb);
        for (std::int64_t t = 0; t < cut.down; ++t) mine.tile(t, columns, packed(t), pb, n);
      }
    });
    float* const sum = piece(0);
    const std::int64_t elements = p.rows * p.columns;
    const int adding = threads_for(elements * cut.depths, parts);
    parallel(adding, [&](int part) {
      const Range mine = part_of(elements, part, adding);
      for (std::int64_t i = 1; i < cut.depths; ++i)
        for (std::int64_t e = mine.begin; e < mine.end; ++e) sum[e] += piece(i)[e];
      for (std::int64_t e = mine.begin; p.relu && e < mine.end; ++e) sum[e] = sum[e] < 0 ? 0 : sum[e];
    });
    for (std::int64_t i = 0; i < p.rows; ++i)
      if (p.narrow_c)
        narrow_numbers(static_cast<std::uint16_t*>(c) + i * p.c_row, sum + i * p.columns, p.columns);
      else
        std::copy_n(sum + i * p.columns, p.columns, static_cast<float*>(c) + i * p.c_row);
  }
};

void MatrixProduct::run(const void* a, const void* b, void* c, const void* bias_at, void* sums_at, std::byte* workspace) const {
  if (rows == 0 || columns == 0) return;
  Run run{*this, cut(), a, b, c, static_cast<const float*>(bias_at), static_cast<float*>(sums_at), nullptr, workspace};
  if (bias_at && narrow_c) {
    vector_table().widen_bfloat16(run.floats(run.cut.bias), bias_at, nullptr, nullptr, columns, nullptr);
    run.bias = run.floats(run.cut.bias);
  }
  if (sums_at && narrow_c) run.totals = run.floats(run.cut.sums);
  if (run.totals) std::fill_n(run.totals, rows, 0.0F);
  if (run.cut.gathers) run.whole = run.floats(run.cut.c);

  const int parts = threads_for(rows * columns * std::max<std::int64_t>(1, inner), threads);
  if (run.cut.as_it_lies) return run.as_they_lie(parts);
  if (run.cut.by_pieces) return run.by_pieces(parts);
  do {  // once where there is nothing to sum
    run.deep = std::min(run.cut.depth, inner - run.k);
    run.cut.by_rows ? run.by_rows(parts) : run.by_columns(parts);
    run.k += run.deep;
  } while (run.k < inner);

  if (run.whole)
    parallel(parts, [&](int part) {
      const Range mine = part_of(rows, part, parts);
      for (std::int64_t i = mine.begin; i < mine.end; ++i)
        narrow_numbers(static_cast<std::uint16_t*>(c) + i * c_row, run.whole + i * columns, columns);
    });
  if (sums_at && narrow_c) narrow_numbers(sums_at, run.totals, rows);
}

double product_efficiency() { return machine_isa() == Isa::baseline ? 0.05 : 0.8; }

}  // namespace tandem::native
