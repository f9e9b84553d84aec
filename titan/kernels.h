#pragma once

/// What a user's module with kernels includes: the kernel language, the library of kernels, operators for
/// torch, the parts of models that overrides replace (from RoPE, RMSNorm, Linear and Embedding up to a whole
/// TransformerBlock), and titan/recipes.h.
///
///   #include <titan/kernels.h>
///   using namespace titan;
///   const auto wrapped = wrap_nki(nkilib::rope_hf);
///   const auto rope_fwd = nki_op("my_kernels::rope_fwd", [](const at::Tensor& query, ...) { ... });

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "titan/models/common/attention.h"
#include "titan/models/common/feed_forward.h"
#include "titan/models/common/rope.h"
#include "titan/models/common/transformer_block.h"
#include "titan/nki.h"
#include "titan/nkilib/rope_hf/rope_hf.h"
#include "titan/nn/embedding.h"
#include "titan/nn/linear.h"
#include "titan/nn/rms_norm.h"
#include "titan/ops/autograd.h"
#include "titan/ops/gradcheck.h"
#include "titan/ops/nki_op.h"
#include "titan/ops/wrap_nki.h"
#include "titan/recipes.h"
