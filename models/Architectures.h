// The architectures by name, one per file, for the table in Architecture.cpp.
#ifndef INGOT_MODELS_ARCHITECTURES_H
#define INGOT_MODELS_ARCHITECTURES_H

#include "models/Architecture.h"

namespace ingot {

extern const Architecture llama, mistral, qwen2, qwen3, ernie45, tinylm;

} // namespace ingot

#endif // INGOT_MODELS_ARCHITECTURES_H
