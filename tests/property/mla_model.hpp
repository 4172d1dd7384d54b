// mla_model.hpp: small models with multi-head latent attention and random weights, written when a test runs, for the
// architecture of mla_plugin.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::property {

// The same numbers in every file.
struct MlaFile {
  bool is_absorbed = true;
  bool has_stacks = false;  // heads' matrices as stacks, those of keys turned; else all in one matrix
  int64_t query_rank = 48;  // 0 = the query is not compressed
  float scale = 0;          // of the scores; 0 = as it should be

  static constexpr int64_t kLayers = 2, kWidth = 64, kVocab = 120, kHeads = 4, kRank = 64;
  static constexpr int64_t kNope = 48, kRope = 32, kValue = 112;  // columns of a head
};

// Writes it into the folder; its path.
std::string write_mla(const std::string& folder, const MlaFile& file);

// An absorbed one of this process, gone when that ends.
const std::string& mla_model();

}  // namespace tenon::property
