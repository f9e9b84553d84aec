#include "titan/config/module_error.h"

#include <exception>

namespace titan {

std::string thrown_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {  // a number, a text: nothing else is known of it
    return "something that is no std::exception was thrown";
  }
}

}  // namespace titan
