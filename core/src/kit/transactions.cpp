#include "transactions.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::kit {
namespace {

constexpr uint32_t kSeqs = 3;

// One sequence as the core sees it.
struct Sequence {
  std::vector<Token> tokens;  // committed
  std::vector<std::vector<float>> outputs;
  std::vector<Token> open;  // of the open transaction
  std::vector<std::vector<float>> open_outputs;
  int32_t slot = -1;  // of the open transaction's tape
  int32_t accepted = 0, replay = 0;
};

void commit(Sequence& s, Random& random) {
  s.accepted = int32_t(random.below(uint32_t(s.open.size()) + 1)), s.replay = s.slot;
  s.tokens.insert(s.tokens.end(), s.open.begin(), s.open.begin() + s.accepted);
  s.outputs.insert(s.outputs.end(), s.open_outputs.begin(), s.open_outputs.begin() + s.accepted);
  s.open.clear(), s.open_outputs.clear(), s.slot = -1;
}

}  // namespace

StateOp conv_op(uint32_t channels, uint32_t taps, uint64_t seed) {
  StateOp op;
  op.op = TENON_OP_SHORT_CONV, op.in_cols = {channels}, op.in_groups = {2}, op.out_cols = channels;
  op.base = [=](Step step) {
    OpCase c(TENON_OP_SHORT_CONV, tenon_short_conv_attr{sizeof(tenon_short_conv_attr), taps, TENON_ACT_SILU, 0},
             std::move(step));
    c.weight("f32", channels, taps, Random(seed).normals(size_t(channels) * taps)).output(channels);
    return c;
  };
  op.store = [=](uint32_t seqs) { return Store::conv(channels, taps, seqs, seed); };
  return op;
}

StateOp delta_op(uint32_t key_heads, uint32_t value_heads, uint32_t key_dim, uint32_t value_dim, uint32_t head_map,
                 uint64_t seed) {
  StateOp op;
  op.op = TENON_OP_GATED_DELTA_RULE;
  const int64_t keys = int64_t(key_heads) * key_dim, values = int64_t(value_heads) * value_dim;
  op.in_cols = {keys, keys, values, value_heads, value_heads}, op.out_cols = values;
  op.in_groups = {key_heads, 1, value_heads, 1, value_heads};
  op.base = [=](Step step) {
    tenon_gated_delta_rule_attr attr = {};
    attr.struct_size = sizeof attr, attr.key_heads = key_heads, attr.value_heads = value_heads;
    attr.key_dim = key_dim, attr.value_dim = value_dim, attr.head_map = head_map;
    attr.scale = 1.0f / std::sqrt(float(key_dim));
    OpCase c(TENON_OP_GATED_DELTA_RULE, attr, std::move(step));
    Random random(seed);
    auto rate = random.normals(value_heads);
    for (float& x : rate) x = -std::exp(x);
    c.weight("f32", 1, value_heads, rate).weight("f32", 1, value_heads, random.normals(value_heads));
    c.output(values);
    return c;
  };
  op.store = [=](uint32_t seqs) { return Store::recurrent(key_heads, value_heads, key_dim, value_dim, seqs, seed); };
  op.shape = [=](std::vector<float>& row, size_t input) {
    if (input > 1) return;
    for (size_t begin = 0; begin < row.size(); begin += key_dim) {
      double squares = 0;
      for (size_t i = 0; i < key_dim; ++i) squares += double(row[begin + i]) * row[begin + i];
      for (size_t i = 0; i < key_dim; ++i) row[begin + i] = float(row[begin + i] / std::sqrt(squares + 1e-6));
    }
  };
  return op;
}

Token random_token(const StateOp& op, Random& random) {
  Token token;
  for (size_t i = 0; i < op.in_cols.size(); ++i) {
    token.push_back(random.normals(size_t(op.in_cols[i]), op.input_scale));
    if (op.shape) op.shape(token.back(), i);
  }
  return token;
}

Player::Player(const StateOp& op, const tenon_kernel& kernel, uint32_t seqs, uint32_t workers)
    : op_(op), kernel_(kernel), workers_(workers), store_(op.store(seqs)), half_(seqs), length_(seqs) {}

std::vector<std::vector<float>> Player::step(const std::vector<SeqRows>& parts,
                                             const std::vector<std::vector<Token>>& tokens, uint32_t phase) {
  std::vector<SeqRows> rows = parts;
  for (size_t s = 0; s < rows.size(); ++s) rows[s].rows = int32_t(tokens[s].size()), rows[s].half = half_[s];
  OpCase c = op_.base(Step(rows));
  c.phase(phase);
  for (size_t i = 0; i < op_.in_cols.size(); ++i) {
    std::vector<float> values;
    for (const auto& sequence : tokens)
      for (const Token& token : sequence) values.insert(values.end(), token[i].begin(), token[i].end());
    const int64_t groups = op_.in_groups[i];
    c.strided(c.step.n_rows, op_.in_cols[i], std::move(values), groups, 16, groups > 1 ? 16 : 0);
  }
  c.store(store_);
  RunResult result = run_op(kernel_, c, {.workers = workers_});
  if (!result.accepted) throw std::runtime_error("refused: " + result.why_not);
  store_ = std::move(result.stores[0]);
  std::vector<std::vector<float>> out;
  for (size_t s = 0; s < rows.size(); ++s) {
    const auto begin = result.out[0].begin() + int64_t(c.step.row0(uint32_t(s))) * op_.out_cols;
    out.emplace_back(begin, begin + rows[s].rows * op_.out_cols);
    if (rows[s].tape < 0 || rows[s].accepted > 0) half_[s] = 1 - half_[s];
  }
  return out;
}

std::vector<float> Player::state(uint32_t seq) {
  const float* begin = store_.state(seq, store_.type.kind == TENON_STORE_CONV ? uint32_t(half_[seq]) : 0);
  return {begin, begin + store_.state_size()};
}

std::string play_transactions(const StateOp& op, const tenon_kernel& kernel, const tenon_kernel& plain, uint64_t seed,
                              int steps, uint32_t workers) {
  Random random(seed);
  Player player(op, kernel, kSeqs, workers);
  std::vector<Sequence> sequences(kSeqs);
  for (int step = 0; step <= steps; ++step) {
    std::vector<SeqRows> parts(kSeqs);
    std::vector<std::vector<Token>> tokens(kSeqs);
    for (uint32_t i = 0; i < kSeqs; ++i) {
      Sequence& s = sequences[i];
      auto n = int32_t(1 + random.below(5));
      const bool last = step == steps;  // leaves nothing open
      const bool go_on = s.slot >= 0 && !last && s.open.size() + size_t(n) <= 15 && random.below(2);
      if (s.slot >= 0 && !go_on) commit(s, random);
      SeqRows& part = parts[i];
      part.past = int32_t(s.tokens.size() + s.open.size());
      part.accepted = s.accepted, part.replay = s.replay;
      if (go_on) {
        part.tape = s.slot, part.tape_start = int32_t(s.open.size());
      } else if (last || random.below(3) == 0) {
        part.tape = -1;
        if (last && s.accepted > 0 && random.below(2)) n = 0;  // only the replay
      } else {
        part.tape = s.slot = s.accepted > 0 ? 1 - s.replay : int32_t(random.below(2));
      }
      for (int32_t r = 0; r < n; ++r) tokens[i].push_back(random_token(op, random));
    }
    const auto outputs = player.step(parts, tokens);
    for (uint32_t i = 0; i < kSeqs; ++i) {
      Sequence& s = sequences[i];
      s.accepted = 0;
      for (size_t r = 0; r < tokens[i].size(); ++r) {
        const auto begin = outputs[i].begin() + int64_t(r) * op.out_cols;
        (s.slot >= 0 ? s.open : s.tokens).push_back(tokens[i][r]);
        (s.slot >= 0 ? s.open_outputs : s.outputs).emplace_back(begin, begin + op.out_cols);
      }
    }
  }
  for (uint32_t i = 0; i < kSeqs; ++i) {
    Player alone(op, plain, 1);
    for (size_t t = 0; t < sequences[i].tokens.size(); ++t) {
      const auto out = alone.step({SeqRows{int32_t(t)}}, {{sequences[i].tokens[t]}});
      if (!equal_bits(out[0], sequences[i].outputs[t]))
        return "sequence " + std::to_string(i) + ", token " + std::to_string(t) + " of " +
               std::to_string(sequences[i].tokens.size()) + ": " + compare(sequences[i].outputs[t], out[0]).text();
    }
    if (!equal_bits(alone.state(0), player.state(i)))
      return "state of sequence " + std::to_string(i) + " after " + std::to_string(sequences[i].tokens.size()) +
             " tokens: " + compare(player.state(i), alone.state(0)).text();
  }
  return {};
}

}  // namespace tenon::kit
