#pragma once

namespace titan {

/// While one lives, warn_once() takes every message as said: for a program that does again what another one
/// has done and warned of.
class WarningsSaid {
 public:
  WarningsSaid();
  WarningsSaid(const WarningsSaid&) = delete;
  WarningsSaid& operator=(const WarningsSaid&) = delete;
  ~WarningsSaid();
};

}  // namespace titan
