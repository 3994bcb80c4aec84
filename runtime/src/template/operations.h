// Python's operators on values, and sorting.
#ifndef INGOT_RUNTIME_TEMPLATE_OPERATIONS_H
#define INGOT_RUNTIME_TEMPLATE_OPERATIONS_H

#include "ingot_rt/image_template.h"
#include "template/context.h"

namespace ingot::rt::tpl {

/// a < b; types that have no order are a failure (and false).
bool isLess(Context &context, const Value &a, const Value &b, const char *sign = "<");
/// One comparison except IN and NOT_IN.
bool compare(Context &context, uint32_t comparison, const Value &a, const Value &b);
/// An ingot_rt_tpl_operator.
Value binary(Context &context, uint32_t operation, const Value &a, const Value &b);
Value negate(Context &context, const Value &value);

/// A stable order of 0, ..., count - 1 by `less`, which may fail; without
/// `sort`, as they are. Merges, so that an order that contradicts itself (NaN)
/// does no harm. False after a failure.
template <typename Less>
bool sortedOrder(Context &context, size_t count, bool sort, std::vector<size_t> &order, Less less) {
  order.resize(count);
  for (size_t i = 0; i < count; ++i)
    order[i] = i;
  std::vector<size_t> merged(count);
  for (size_t width = 1; sort && width < count; width *= 2) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
      size_t middle = std::min(begin + width, count), end = std::min(begin + 2 * width, count);
      size_t left = begin, right = middle;
      for (size_t at = begin; at < end; ++at) {
        bool takeRight = left == middle || (right < end && less(order[right], order[left]));
        merged[at] = takeRight ? order[right++] : order[left++];
        if (!context.step())
          return false;
      }
    }
    order.swap(merged);
  }
  return !context.failed;
}

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_OPERATIONS_H
