// short_conv and gated_delta_rule: single steps against the reference, then transactions against plain steps.
#include <algorithm>

#include "checks.hpp"
#include "kit/transactions.hpp"

namespace tenon::gpu_test {

std::vector<SeqRows> every_transaction() {
  return {
      {.past = 9, .rows = 3, .half = 1},
      {.past = 4, .rows = 5, .tape = 0},
      {.past = 20, .rows = 2, .accepted = 4, .replay = 0, .tape = 1, .half = 1},
      {.past = 7, .rows = 3, .tape = 1, .tape_start = 6},
      {.past = 30, .rows = 0, .accepted = 15, .replay = 1},
      {.past = 30, .rows = 1, .accepted = 2, .replay = 1, .half = 1},
  };
}

OpCase state_case(const StateOp& op, const std::vector<SeqRows>& parts, uint32_t phase, uint64_t seed) {
  OpCase c = op.base(Step(parts));
  Random random(seed);
  for (size_t i = 0; i < op.in_cols.size(); ++i) {
    std::vector<float> values;
    for (uint32_t r = 0; r < c.step.n_rows; ++r) {
      const Token token = random_token(op, random);
      values.insert(values.end(), token[i].begin(), token[i].end());
    }
    const int64_t groups = op.in_groups[i];
    c.strided(c.step.n_rows, op.in_cols[i], std::move(values), groups, 16, groups > 1 ? 16 : 0);
  }
  Store store = op.store(uint32_t(parts.size()));
  const bool is_conv = store.type.kind == TENON_STORE_CONV;
  for (uint32_t s = 0; s < parts.size(); ++s) {
    for (uint32_t half = 0; half < (is_conv ? 2u : 1u); ++half)
      for (size_t i = 0; i < store.state_size(); ++i) store.state(s, half)[i] = random.normal();
    for (uint32_t slot = 0; slot < 2; ++slot)
      for (int64_t r = 0; r < TENON_DECODE_MAX_TOKENS; ++r) {
        float* row = store.tape(s, slot) + r * store.type.tape_cols;
        const Token token = random_token(op, random);
        if (is_conv) {
          std::copy(token[0].begin(), token[0].end(), row);
          continue;
        }
        // Keys, values, decays, betas.
        row = std::copy(token[1].begin(), token[1].end(), row);
        row = std::copy(token[2].begin(), token[2].end(), row);
        for (size_t h = 0; h < 2 * token[3].size(); ++h) *row++ = 0.5f + 0.4f * random.uniform();
      }
  }
  c.store(std::move(store)).phase(phase);
  return c;
}

namespace {

void check_state(Checks& checks, const StateOp& op, const tenon_kernel& reference, const std::string& what) {
  const std::vector<SeqRows> parts = every_transaction();
  const OpCase step = state_case(op, parts, TENON_PHASE_DECODE, 3);
  checks.against_reference(step, what + ", a step");
  checks.guarded(what + ", states", [&] {
    const RunResult got = run_on_device(checks.device(), checks.kernel(), step), want = run_op(reference, step);
    Store mine = got.stores[0], theirs = want.stores[0];
    const bool is_conv = mine.type.kind == TENON_STORE_CONV;
    for (uint32_t s = 0; s < parts.size(); ++s) {
      const bool changed = parts[s].tape < 0 || parts[s].accepted > 0;
      const uint32_t half = is_conv ? uint32_t(changed ? 1 - parts[s].half : parts[s].half) : 0;
      const std::span<const float> a(mine.state(s, half), mine.state_size()),
          b(theirs.state(s, half), mine.state_size());
      const Difference off = compare(a, b);
      checks.expect(is_conv ? equal_bits(a, b) : off.comparable && off.relative_rms < checks.line().bound,
                    what + ", state of sequence " + std::to_string(s) + ": " + off.text());
      if (parts[s].tape < 0) continue;
      const size_t numbers = size_t(parts[s].tape_start + parts[s].rows) * size_t(mine.type.tape_cols);
      const Difference tape =
          compare({mine.tape(s, uint32_t(parts[s].tape)), numbers}, {theirs.tape(s, uint32_t(parts[s].tape)), numbers});
      checks.expect(tape.comparable && tape.relative_rms < checks.line().bound,
                    what + ", tape of sequence " + std::to_string(s) + ": " + tape.text());
    }
  });
  if (!checks.is_small())
    checks.against_reference(state_case(op, {{.past = 0, .rows = 70}, {.past = 64, .rows = 33}}, TENON_PHASE_PREFILL, 4),
                             what + ", a prompt");
  for (uint64_t seed = 1; seed <= (checks.is_small() ? 1u : 4u); ++seed)
    checks.guarded(what + ", transactions", [&] {
      const std::string fault =
          play_transactions(op, checks.kernel(), checks.kernel(), seed, checks.is_small() ? 3 : 12);
      checks.expect(fault.empty(), what + ", transactions: " + fault);
    });
  checks.row_exact(state_case(op, std::vector<SeqRows>(checks.is_small() ? 4 : 64, SeqRows{}), TENON_PHASE_DECODE, 5),
                   what);
}

}  // namespace

void check_recurrent(const Device& device, bool is_small, std::vector<Line>& lines) {
  {
    Checks checks(device, "cuda.short_conv", 5e-7, is_small);
    for (const auto& [channels, taps] : {std::pair{6u, 4u}, {512u, 4u}, {130u, 2u}, {200u, 5u}}) {
      check_state(checks, conv_op(channels, taps), Kit::instance().kernel("reference.short_conv"),
                  std::to_string(channels) + " channels, " + std::to_string(taps) + " taps");
      if (is_small) break;
    }
    lines.push_back(checks.line());
  }
  Checks checks(device, "cuda.gated_delta_rule", 2e-6, is_small);
  struct Shape {
    uint32_t nk, nv, dk, dv, map;
  };
  for (const Shape& s : {Shape{2, 4, 64, 48, TENON_HEAD_MAP_DIV}, Shape{2, 4, 128, 128, TENON_HEAD_MAP_MOD},
                         Shape{1, 3, 16, 80, TENON_HEAD_MAP_MOD}, Shape{2, 2, 256, 32, TENON_HEAD_MAP_DIV}}) {
    check_state(checks, delta_op(s.nk, s.nv, s.dk, s.dv, s.map), Kit::instance().kernel("reference.gated_delta_rule"),
                std::to_string(s.nk) + " and " + std::to_string(s.nv) + " heads of " + std::to_string(s.dk) + " and " +
                    std::to_string(s.dv));
    if (is_small) break;
  }
  lines.push_back(checks.line());
}

}  // namespace tenon::gpu_test
