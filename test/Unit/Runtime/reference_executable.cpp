// Makes an executable of the runtime and the reference decoder: the object that the compiler would emit.
#include "reference_model.h"

extern "C" const ingot_rt_model ingot_rt_the_model;
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory for its tables, there is nothing to test.
const ingot_rt_model ingot_rt_the_model = ingot::rt::reference::model();
