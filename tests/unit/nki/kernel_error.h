#pragma once

#include <string>

#include "titan/nki/error.h"

/// The rule that `act` breaks, or "".
template <class Act>
std::string broken_rule(Act act) {
  try {
    act();
  } catch (const titan::nki::KernelError& error) {
    return error.rule;
  }
  return "";
}
