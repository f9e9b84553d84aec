#pragma once

#include <string_view>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// Which bytes of its operands an operator must move; what it may leave out is not counted.
enum class Traffic {
  whole,         ///< reads all inputs, writes all outputs
  written,       ///< fill_, normal_: writes only
  first_input,   ///< _copy_from(source, destination), slice_scatter: reads as much as the first is
  other_inputs,  ///< copy_(destination, source): the first is not read, unless it is alone
  picked,        ///< index: of the first input no more than is written, the others whole
  scattered,     ///< index_put_ in place: the others, and of the first as much as the last one holds
};

/// An operator's row of the table.
struct OperatorEntry {
  OperatorClass operator_class = OperatorClass::elementwise;
  Traffic traffic = Traffic::whole;
};

/// "aten::exp_" and "aten::exp.out" -> "aten::exp".
std::string_view plain_name(std::string_view name);

/// The row of an operator, or null where the table does not have it.
const OperatorEntry* find_operator_entry(std::string_view name);

/// How often each element passes through an engine. Attention, loss and normalisation also have ScalarE work
/// that does not follow from the number of elements (work_of counts it).
struct ClassPasses {
  double vector = 0, scalar = 0;
};
ClassPasses passes_of(OperatorClass operator_class);

}  // namespace titan::neuron
