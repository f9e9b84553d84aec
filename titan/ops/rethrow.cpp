#include "titan/ops/rethrow.h"

#include <c10/util/Exception.h>

#include "titan/base/error.h"
#include "titan/config/module_error.h"

namespace titan {

void rethrow_from(const std::string& who) {
  try {
    throw;
  } catch (const ValueError&) {
    throw;
  } catch (c10::Error& error) {
    error.add_context("in " + who);
    throw;
  } catch (...) {
    throw ValueError("{} failed: {}", who, thrown_text());
  }
}

}  // namespace titan
