// engine.hpp: the engine's C++ API. Engine finds plugins and loads models; a Model runs Sequences.
#pragma once

#include <tenon/error.hpp>
#include <tenon/sampler.hpp>
#include <tenon/tokenizer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class Precision { kExact, kDefault, kFast };

// Called on loading threads, often, one call at a time; done = total at the end of a stage.
struct Progress {
  const char* stage;  // "read", "pack"
  uint64_t done_bytes, total_bytes;
  uint32_t rank = 0;  // that is so far
};
using ProgressCallback = std::function<void(const Progress&)>;
using CancelCallback = std::function<bool()>;  // true = stop; polled between slices and steps

struct EngineOptions {
  std::vector<std::string> plugin_path;  // searched first, in order
  bool use_default_path = true;          // TENON_PLUGIN_PATH, user directory, install directory
};

struct ModelOptions {
  std::string path;
  std::vector<std::string> entries;  // to be loaded beside main, such as draft.0
  std::string draft_path;            // the file that holds the drafts, where the model's own does not; "" = the model's
  std::string backend = "auto";
  uint32_t threads = 0;  // of all ranks together; 0 = the machine's cores
  // Ranks: so many share each layer (by heads, channels, vocabulary), the experts of a layer are dealt over so many owners, and
  // so many stages have layers of their own. In place of the numbers, lists "0-3@0,1;4-7@2,3" say which ranks have a layer.
  uint32_t tensor_parallel = 1, expert_parallel = 1, pipeline_parallel = 1;
  std::string tensor_layers, expert_layers;
  bool interleave_experts = false;  // owners have every n-th expert, not neighbours
  // Parts of sums over a cut axis, and of those inside an expert, folded in order: equal parts give equal bits on any number of
  // ranks. 0: as few as the ranks of each layer allow. With fast_sums the collective adds up, in its own order.
  uint32_t sum_parts = 0, expert_parts = 0;
  bool fast_sums = false;
  std::vector<uint32_t> devices;  // of each rank; empty: rank r has device r, or all have the only one
  std::string collective;         // what moves bytes between ranks; "" = what fits the backend and how the program was started
  uint32_t rank_timeout_ms = 600'000;  // how long a rank may keep the others waiting
  Precision precision = Precision::kDefault;
  int64_t context = 0;  // 0 = the smaller of the model's and 8192
  bool clip_context = false;  // a context above what the model was trained for becomes that
  uint32_t max_sequences = 1;
  uint32_t prefill_chunk = 512;  // a multiple of 64; an overlay's spans have no more rows
  bool overlay = false;          // feeds may bring rows in place of embeddings; main must take them
  uint32_t max_decode_rows = 64;  // rows of one decode step, all sequences together
  std::string cache_type_k, cache_type_v;  // "" = by precision: f32 or f16
  std::vector<std::string> prefer, forbid;  // kernel names or prefixes
  bool composites = true;
  bool capture = true;  // replay recorded decode steps, where the backend can
  // Memory for the beginnings of texts that Sequence::resume() finds again, beside what live sequences may need: 0 = none,
  // -1 = by the model and the context, at most 2 GiB. What does not fit is forgotten, the least useful first.
  int64_t prefix_cache_bytes = 0;
  bool poison = false;  // for tests: before every step, all that it must not read is filled with NaN; slow
  ProgressCallback progress;
  CancelCallback cancelled;
};

struct ModelInfo {
  std::string architecture, name, format, backend, backend_description;
  int64_t n_layers = 0, width = 0, vocab = 0, context = 0, trained_context = 0;
  uint64_t file_bytes = 0, weight_bytes = 0, packed_bytes = 0, arena_bytes = 0, store_bytes = 0;
  uint64_t decode_weight_bytes = 0;  // weight bytes that one decode step reads
  uint32_t threads = 0;  // of all ranks, as the bytes are
  uint32_t n_ranks = 1;
  uint32_t decode_barriers = 0, decode_launches = 0;  // a whole step
  bool captured = false;  // decode steps are replayed
  double decode_barriers_per_layer = 0, decode_launches_per_layer = 0;
  std::vector<std::string> files;    // every one that is read: parts, configurations, those of a draft
  std::vector<std::string> entries;  // that the files hold; loaded are main and those that were asked for
  uint32_t n_draft_absent = 0;       // draft blocks that the model's file announces and leaves to another
};

// An entry graph that was loaded. A draft's rows are pairs: the model's hidden row at one position and the token of the
// next; their logits are for the token after that.
struct EntryInfo {
  std::string name;
  int64_t hidden_width = 0;        // f32 columns of the hidden row that each token comes with; 0 = none
  int64_t vocab = 0;               // logits of a row
  std::span<const int32_t> ids;    // the token of each logit; empty: logit i is of token i
  int64_t overlay_width = 0;       // f32 columns of rows that may be given in place of embeddings; 0 = none are taken
};

class Model;

struct ResumeOptions {
  // Nothing that decode steps made, which is close to what a cold run computes but not equal.
  bool only_equal = false;
  // Where other prompts may part from this one, in tokens from its begin: behind the part that many of them share, and
  // behind each message, ascending. What it takes to resume there, rounded down to 64 tokens, is kept as the prompt is fed.
  int64_t static_prefix = 0;
  std::span<const int64_t> message_ends = {};
};

struct Resumed {
  int64_t reused = 0;   // tokens of the prompt that the sequence holds now
  int64_t matched = 0;  // tokens up to where the prompt parts from all that is known
  bool is_equal = true; // the rest, fed as it is, gives the logits of a cold run, bit for bit on devices that are row-exact
};

// The prefix cache at work.
struct PrefixCacheInfo {
  uint64_t limit_bytes = 0, held_bytes = 0;  // held: also what live sequences share
  uint64_t checkpoint_bytes = 0;             // one of them, at most; 0: the model needs none
  int64_t pages = 0, checkpoints = 0, most_checkpoints = 0;
  uint64_t evicted = 0;  // pages and checkpoints given up for others
  uint64_t prompts = 0, prompt_tokens = 0, reused_tokens = 0;  // of all resume() calls
};

// One conversation's cached tokens in one entry. Create with Model::sequence() or draft_sequence(); must not outlive its
// Model, nor, of a draft, the sequence drafted for. One thread.
class Sequence {
 public:
  ~Sequence();
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;

  int64_t length() const;  // tokens in the cache, open transaction included
  // Opens a transaction: what is appended until commit() or rollback() can be taken back, at most 15 tokens.
  void begin();
  void commit(int64_t keep);  // the first `keep` tokens of the transaction stay
  void rollback();
  // Keeps the first n tokens if every store can resume there; answers the largest length ≤ n that it could keep and
  // keeps that many. Sequences with recurrent state resume at 0 or at their current length.
  int64_t truncate(int64_t n);
  // Makes the sequence hold as much of the prompt's begin as can be reused: what it holds itself, or what the prefix cache
  // has from any sequence. The caller feeds the rest. All of its own tokens are kept where the prompt goes on behind them
  // (unless `only_equal`); else the length is a multiple of 64 and leaves at least 16 tokens, so that the rest is a prefill.
  // From then on the cache follows the sequence. Throws Error(kUsage) in an open transaction.
  Resumed resume(std::span<const int32_t> prompt, const ResumeOptions& options = {});
  Sequence fork();  // an independent copy, a draft's for the same sequence; throws Error(kCapacity)
  std::vector<uint8_t> save() const;
  void restore(std::span<const uint8_t> bytes);

 private:
  friend class Model;
  struct Impl;
  explicit Sequence(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Rows in place of the embeddings of some of a feed's tokens, as an encoder of images gives them: they are taken as they are,
// where a model scales its own embeddings too. Rows of a span see each other both ways in those layers of the model that were
// trained so; a span lies in one feed, and a sequence that is cut inside one keeps rows that saw the rest. All else of the
// token, such as the id that drafts read, stays.
struct Overlay {
  std::span<const float> rows;               // [n][overlay_width]
  std::span<const int32_t> positions;        // [n], in the feed's tokens, ascending
  std::span<const int32_t> spans = {};       // [n]: id of the row's span, whose rows follow one another; -1 = none; or empty
};
// Rows of the longest span; 0 = there are none. Throws Error(kUsage) where positions do not ascend or a span is torn.
int64_t longest_span(const Overlay& overlay);

// Tokens for one sequence in a forward call. A sequence that was fed an overlay is not its tokens' alone: it leaves the prefix
// cache, and resume() starts it anew.
struct Feed {
  Sequence* sequence;
  std::span<const int32_t> tokens;
  std::span<const int32_t> output_rows;  // positions in `tokens` whose logits are wanted, ascending
  std::span<const float> hidden = {};    // [tokens][hidden_width of the sequence's entry]
  Overlay overlay = {};
};

// Logits of the wanted rows, or the best of each, in the order of feeds and rows. Valid until the Model's next forward().
struct Output {
  std::span<const float> logits;      // [rows][vocab]
  std::span<const BestToken> best;    // [rows], where only they were wanted
  int64_t rows = 0, vocab = 0;
  std::span<const float> row(int64_t r) const { return logits.subspan(size_t(r * vocab), size_t(vocab)); }
};

struct ForwardOptions {
  uint32_t chunk = 0;      // prefill chunk, a multiple of 64; 0 = the model's
  // > 0: everything goes through the decode phase, that many tokens of a sequence a step, fewer in front of a span
  uint32_t decode_step = 0;
  std::vector<std::string> taps;  // names wanted, such as "hidden": all borders
  std::map<std::string, std::vector<float>>* tapped = nullptr;  // name ("hidden.3") -> f32 [tokens][cols] in feed order
  CancelCallback cancelled;
  // Given, it gets every wanted row (number in the order of feeds and rows, logits) as soon as it is there, and Output stays
  // empty: for long texts, whose logits would not fit in memory.
  std::function<void(int64_t row, std::span<const float> logits)> on_row;
  // Output has `best` in place of logits: the best token of each wanted row, those in `never` left out. Where a model has several
  // ranks each looks through the logits that it has, and they are not brought together. Not with on_row.
  bool best_only = false;
  std::span<const IdRange> never = {};  // in any order
};

class Model {
 public:
  ~Model();
  const ModelInfo& info() const;
  // Bytes that all ranks together have sent each other in steps, since the model was loaded.
  uint64_t sent_bytes() const;
  const Tokenizer& tokenizer() const;  // throws Error(kFile) when the file has none
  std::string chat_template() const;   // "" when the file has none

  // Ids that the architecture forbids to sample, besides those that the tokenizer suppresses. Logits are not masked.
  std::span<const int32_t> suppressed() const;

  // The entry, if it was loaded; throws Error(kUsage).
  EntryInfo entry(std::string_view name) const;

  Sequence sequence();  // throws Error(kCapacity) when max_sequences are live
  PrefixCacheInfo prefix_cache() const;
  // A draft's own cache beside a sequence of main. Its rows are numbered from 0; where the draft reads keys of main, row i
  // reads those up to position i, which must be there. What is fed is taken back by rollback() or truncate().
  Sequence draft_sequence(const Sequence& target, std::string_view entry);

  // Appends every feed's tokens to its sequence and computes the wanted logits. Feeds of 16 or more tokens go through the
  // prefill phase in chunks, shorter ones together through the decode phase. All sequences are of one entry. Throws Error(kCapacity) when a context is full,
  // Error(kUsage) for token ids out of range; then nothing has changed. A step that fails or is interrupted leaves the steps
  // before it: length() says how many tokens a sequence holds.
  Output forward(std::span<const Feed> feeds, const ForwardOptions& options = {});
  Output forward(Sequence& sequence, std::span<const int32_t> tokens, bool all_rows = false);

 private:
  friend class Engine;
  friend class Sequence;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A report for `tenon inspect`, as text or JSON.
struct InspectOptions {
  bool json = false, tensors = false, plan = false, kernels = false, graph = false;
  ModelOptions model;  // backend, threads, precision … as a run would have them
};

// Writing a model with other dtypes, for `tenon quantize`.
struct QuantizeOptions {
  std::string path;      // the model
  std::string out_path;  // its ending chooses the format; the caller opens the file
  std::string type;      // a mix such as Q4_K_M, or a dtype
  uint32_t threads = 0;  // 0 = the machine's cores
  ProgressCallback progress;
  CancelCallback cancelled;
};
// Takes bytes of the file to be written, at any offsets, from several threads. What it throws ends the work.
using QuantizeSink = std::function<void(uint64_t offset, std::span<const uint8_t> bytes)>;
struct QuantizeReport {
  struct Type {
    uint64_t tensors = 0, bytes = 0;
  };
  uint64_t bytes_before = 0, tensor_bytes = 0, values = 0;
  uint64_t tensors_left_out = 0;  // of the source, such as draft blocks and vision towers
  bool has_tokenizer = false;     // without one, the file serves token ids and no text
  std::map<std::string, Type> types;
};

struct FollowOptions {
  std::string collective = "mpi";
  uint32_t rank_timeout_ms = 600'000;  // as in ModelOptions
};
struct FollowReport {
  std::optional<Error> failure;  // of this rank
  bool is_known = true;          // to rank 0, which reports it
};

class Engine {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();
  // Throws Error: kFile for files, kCapacity for memory, kUsage for options. Nothing stays loaded on failure.
  std::unique_ptr<Model> load(const ModelOptions& options);
  // Where ranks are processes: serves as one of those other than 0, for one model that rank 0 loads, until that is gone.
  FollowReport follow(const FollowOptions& options);
  // Only the tokenizer: needs no architecture and no weights.
  std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);
  // Only the chat template's text; "" when the file has none.
  std::string load_chat_template(const std::string& path);
  std::string inspect(const std::string& path, const InspectOptions& options);
  // Writes a model again, one slice of a tensor after another. Throws Error: kUsage for a type or an output that cannot be,
  // kFile for a model that cannot be read or written that way. The sink has seen a whole file when this returns.
  QuantizeReport quantize(const QuantizeOptions& options, const QuantizeSink& sink);
  // `tenon plugins list|verify|info`: text for people, or JSON.
  std::string plugins_list(bool json);
  std::string plugins_verify(bool json, bool* all_good);
  std::string plugins_info(const std::string& name, bool json);
  uint32_t n_opened_libraries() const;

 private:
  std::unique_ptr<Model> load_ranks(const ModelOptions& options);
  std::unique_ptr<Model> load_processes(const ModelOptions& options);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the engine and its plugins log on standard error: "debug", "info", "warning" (at first, or what the environment
// variable TENON_LOG says), "error" or "off". False for another name; nothing changes then. Any thread.
bool set_log_level(std::string_view name) noexcept;

}  // namespace tenon
