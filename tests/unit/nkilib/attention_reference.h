#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

/// Softmax attention in double, for tests.
namespace titan::nkilib::testing {

struct AttentionSizes {
  int64_t batch, length, q_heads, k_heads, head_dim;

  int64_t q_count() const { return batch * length * q_heads * head_dim; }
  int64_t k_count() const { return batch * length * k_heads * head_dim; }
};

struct AttentionProblem {
  AttentionSizes sizes;
  std::vector<float> q, k, v, dout;  ///< [B, S, H, D]
  double scale;
  bool causal = true;
  std::vector<int64_t> first_key = {};  ///< [B, S], or none
};

struct AttentionAnswer {
  std::vector<double> out, lse, dq, dk, dv;
};

/// One head's rows [S, D] in double, as they are and transposed.
struct AttentionHead {
  std::vector<double> rows, columns;

  AttentionHead(const std::vector<float>& x, int64_t b, int64_t head, int64_t heads,
                const AttentionSizes& of) {
    const int64_t dim = of.head_dim;
    rows.resize(static_cast<size_t>(of.length * dim));
    columns.resize(rows.size());
    for (int64_t s = 0; s < of.length; ++s)
      for (int64_t d = 0; d < dim; ++d) {
        const double value = x[static_cast<size_t>(((b * of.length + s) * heads + head) * dim + d)];
        rows[static_cast<size_t>(s * dim + d)] = value;
        columns[static_cast<size_t>(d * of.length + s)] = value;
      }
  }
};

/// to[i] += factor * from[i]
inline void add_scaled(double* to, double factor, const double* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// The row of query t of head h, and of its key head.
inline void answer_row(const AttentionProblem& problem, int64_t b, int64_t h, int64_t t,
                       const AttentionHead& k, const AttentionHead& v, AttentionAnswer& answer) {
  const AttentionSizes& of = problem.sizes;
  const int64_t dim = of.head_dim, group = of.q_heads / of.k_heads;
  const int64_t last = problem.causal ? t : of.length - 1;
  const int64_t first =
      problem.first_key.empty()
          ? 0
          : std::clamp<int64_t>(problem.first_key[static_cast<size_t>(b * of.length + t)], 0, t);
  const int64_t count = last - first + 1;
  const int64_t row = ((b * of.length + t) * of.q_heads + h) * dim;
  std::vector<double> p(static_cast<size_t>(count)), dp(p);
  for (int64_t d = 0; d < dim; ++d) {
    add_scaled(p.data(), problem.scale * double{problem.q[static_cast<size_t>(row + d)]},
               k.columns.data() + d * of.length + first, count);
    add_scaled(dp.data(), problem.dout[static_cast<size_t>(row + d)],
               v.columns.data() + d * of.length + first, count);
  }
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0, delta = 0;
  for (double& x : p) sum += x = std::exp(x - max);
  answer.lse[static_cast<size_t>((b * of.q_heads + h) * of.length + t)] = max + std::log(sum);
  for (int64_t i = 0; i < count; ++i) {
    p[static_cast<size_t>(i)] /= sum;
    delta += p[static_cast<size_t>(i)] * dp[static_cast<size_t>(i)];
  }
  const std::vector<double> q(problem.q.begin() + row, problem.q.begin() + row + dim);
  const std::vector<double> dout(problem.dout.begin() + row, problem.dout.begin() + row + dim);
  for (int64_t i = 0; i < count; ++i) {
    const double weight = p[static_cast<size_t>(i)];
    const double ds = weight * (dp[static_cast<size_t>(i)] - delta) * problem.scale;
    const int64_t key_row = ((b * of.length + first + i) * of.k_heads + h / group) * dim;
    add_scaled(answer.out.data() + row, weight, v.rows.data() + (first + i) * dim, dim);
    add_scaled(answer.dq.data() + row, ds, k.rows.data() + (first + i) * dim, dim);
    add_scaled(answer.dk.data() + key_row, ds, q.data(), dim);
    add_scaled(answer.dv.data() + key_row, weight, dout.data(), dim);
  }
}

inline AttentionAnswer answer_of(const AttentionProblem& problem) {
  const AttentionSizes& of = problem.sizes;
  AttentionAnswer answer;
  answer.out.resize(static_cast<size_t>(of.q_count()));
  answer.dq.resize(static_cast<size_t>(of.q_count()));
  answer.dk.resize(static_cast<size_t>(of.k_count()));
  answer.dv.resize(static_cast<size_t>(of.k_count()));
  answer.lse.resize(static_cast<size_t>(of.batch * of.q_heads * of.length));
  for (int64_t b = 0; b < of.batch; ++b)
    for (int64_t h = 0; h < of.q_heads; ++h) {
      const int64_t k_head = h / (of.q_heads / of.k_heads);
      const AttentionHead k(problem.k, b, k_head, of.k_heads, of), v(problem.v, b, k_head, of.k_heads, of);
      for (int64_t t = 0; t < of.length; ++t) answer_row(problem, b, h, t, k, v, answer);
    }
  return answer;
}

}  // namespace titan::nkilib::testing
