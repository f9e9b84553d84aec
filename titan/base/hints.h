#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// What to say of a name that is none of `names`, and all of these: "; did you mean X? It has X, Y", or
/// "; it has X, Y" where none is near, for `it_has` "it has". Without names "; it has none".
std::string did_you_mean_of(std::string_view name, const std::vector<std::string>& names,
                            std::string_view it_has);

}  // namespace titan
