// For operators whose samples lie along axis 0 of several operands: attention and what stands around it.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "graph/follow.h"

namespace tandem {

// Samples lie on axis 0 of these operands and of every output; those of these operands that hold none, and more than one row, are
// repeated. No other operand holds any.
inline void follow_batch_first(FollowContext& c, std::initializer_list<int> batched) {
  BatchPlace place;
  for (const int i : batched)
    if (!place.present()) place = c.place(i);
  if (place.axis != 0) c.fail("the samples do not lie along axis 0 of its operands");
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.has_input(i)) continue;
    const bool is_batched = std::find(batched.begin(), batched.end(), i) != batched.end();
    if (c.place(i).present() && (!is_batched || c.place(i) != place))
      c.fail("its input ", i, " holds samples at another place: samples would meet");
    if (!c.place(i).present() && is_batched && c.x(i).rank() > 0 && c.x(i)[0] != 1) c.repeat(i, 0, place.outer);
  }
  c.set_all(place);
}

}  // namespace tandem
