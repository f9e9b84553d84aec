#pragma once

// Comes before everything else in tests on torch: its logging defines glog's CHECK macros, and doctest's must
// win in every file of a unity batch, whatever its includes.
#include <c10/util/Logging.h>

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_GT
#undef CHECK_GE
#undef CHECK_LT
#undef CHECK_LE

#include <doctest/doctest.h>
