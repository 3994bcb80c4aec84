/* The least that an executable links with: a model without code, to see that link.txt names all that is needed. */
#include "ingot_rt/abi.h"

const struct ingot_rt_model ingot_rt_the_model = {.size = sizeof(struct ingot_rt_model),
                                                  .version = INGOT_RT_ABI_VERSION};
