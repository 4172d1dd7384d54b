#include "options.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon::launcher {
namespace {

constexpr double kMaxCount = 1e9;
constexpr double kMaxSeed = 9007199254740992.0;  // 2^53: every seed up to here survives JSON readers
constexpr uint32_t kGenerating = verbs(Verb::kRun, Verb::kChat);

constexpr VerbSpec kVerbs[] = {
    {Verb::kRun, "run", "-m MODEL (-p TEXT | --tokens IDS|@FILE) [-n N] [--raw] [flags]",
     "answer a question, or complete a text", 0, 0, "", ""},
    {Verb::kEval, "eval", "-m MODEL --tokens IDS|@FILE [--rows all|last|I,J] --out F.safetensors [flags]",
     "forward pass; write logits and inner values to a file", 0, 0, "", ""},
    {Verb::kPerplexity, "perplexity", "-m MODEL -f FILE [-c CTX] [--score half|all] [--json]",
     "how well the model predicts a text", 0, 0, "", ""},
    {Verb::kTokenize, "tokenize", "-m MODEL [--json] [--no-bos] [--decode IDS] [--] TEXT",
     "text to token ids, and back", 0, 1, "TEXT", ""},
    {Verb::kBench, "bench", "-m MODEL [-p 512] [-n 128] [-t THREADS] [-r 5] [--json]", "prefill and decode speed", 0, 0,
     "", ""},
    {Verb::kInspect, "inspect", "MODEL [--json] [--tensors | --plan | --kernels | --graph]",
     "check a model file and report what is in it", 0, 1, "MODEL", ""},
    {Verb::kPlugins, "plugins", "list | verify | info NAME | test LIBRARY [--json]",
     "what plugins there are, and whether one keeps its duties", 1, 2, "list, verify, info NAME or test LIBRARY", ""},
    {Verb::kChat, "chat", "-m MODEL [--system TEXT] [--messages FILE [--render]] [flags]",
     "talk to a model; /undo, /retry, /clear, /exit and /help are commands there", 0, 0, "", ""},
    {Verb::kQuantize, "quantize", "IN OUT.gguf --type T [-t THREADS] [--force]",
     "write a model with other types, such as Q4_K_M", 2, 2, "IN and OUT.gguf", ""},
    {Verb::kServe, "serve", "-m MODEL", "answer over HTTP", 0, 0, "", "the server is not part of this build"},
};

constexpr OptionSpec kOptions[] = {
    // What to work on.
    {"model", 'm', Kind::kText, "MODEL", kEveryVerb & ~verbs(Verb::kPlugins, Verb::kQuantize), "the model file"},
    {"model", 'm', Kind::kText, "MODEL", verbs(Verb::kPlugins),
     "test: a model that an architecture is to build and run"},
    {"files", 0, Kind::kText, "DIR", verbs(Verb::kPlugins), "test: a directory of valid files of a format"},
    {"only", 0, Kind::kText, "TEXT", verbs(Verb::kPlugins), "test: the checks whose names contain TEXT"},
    {"timeout", 0, Kind::kInteger, "S", verbs(Verb::kPlugins), "test: seconds that a check may take (default 300)", 1,
     86400},
    {"prompt", 'p', Kind::kText, "TEXT", verbs(Verb::kRun), "the question, or with --raw the text to complete", 0, 0,
     "", false, "input"},
    {"tokens", 0, Kind::kText, "IDS|@FILE", verbs(Verb::kRun), "token ids to complete, instead of a text", 0, 0, "",
     false, "input"},
    {"tokens", 0, Kind::kText, "IDS|@FILE", verbs(Verb::kEval), "the token ids, as 1,2,3 or in a file"},
    {"file", 'f', Kind::kText, "FILE", verbs(Verb::kPerplexity), "the text to score"},

    // run and chat
    {"n-predict", 'n', Kind::kInteger, "N", kGenerating,
     "tokens to generate at most, -1 = until the context is full (default: run 128, chat -1)", -1, kMaxCount},
    {"raw", 0, Kind::kSwitch, "", verbs(Verb::kRun), "apply no chat template"},
    {"system", 0, Kind::kText, "TEXT", verbs(Verb::kChat), "a system message before the conversation", 0, 0, "", false,
     "conversation"},
    {"messages", 0, Kind::kText, "FILE", verbs(Verb::kChat),
     "answer the conversation in FILE: a JSON list of messages, or an object with messages, tools and, by their names, "
     "variables",
     0, 0, "", false, "conversation"},
    {"render", 0, Kind::kSwitch, "", verbs(Verb::kChat), "only print the prompt that --messages gives"},
    {"template-args", 0, Kind::kText, "JSON", kGenerating,
     "variables for the chat template, such as {\"enable_thinking\": false}"},
    {"prefix-cache", 0, Kind::kSize, "SIZE", verbs(Verb::kChat, Verb::kInspect),
     "chat's memory for earlier turns and other conversations, so that what they share with a prompt is not computed "
     "again: bytes, or with K, M or G; 0 = none (default: by the model and the context, 2G at most)"},
    {"recompute", 0, Kind::kSwitch, "", verbs(Verb::kChat),
     "compute the model's own answers again with the next prompt, so that each answer equals one to the whole "
     "conversation at once, bit for bit"},
    {"ignore-eos", 0, Kind::kSwitch, "", kGenerating, "do not stop at an end-of-text token"},
    {"temp", 0, Kind::kNumber, "X", kGenerating, "temperature, 0 = always the likeliest token (default 0.8)", 0, 1000},
    {"top-k", 0, Kind::kInteger, "N", kGenerating, "sample from the N likeliest tokens, 0 = all (default 40)", 0,
     kMaxCount},
    {"top-p", 0, Kind::kNumber, "X", kGenerating, "keep the likeliest tokens up to this probability (default 0.95)", 0,
     1},
    {"min-p", 0, Kind::kNumber, "X", kGenerating, "drop tokens below X times the likeliest (default 0.05)", 0, 1},
    {"repeat-penalty", 0, Kind::kNumber, "X", kGenerating, "above 1: make seen tokens less likely (default 1)", 0.001,
     1000},
    {"presence-penalty", 0, Kind::kNumber, "X", kGenerating, "taken from the logits of seen tokens (default 0)", -1000,
     1000},
    {"frequency-penalty", 0, Kind::kNumber, "X", kGenerating,
     "taken from a token's logit for each time it was seen (default 0)", -1000, 1000},
    {"seed", 0, Kind::kInteger, "N", kGenerating, "seed of the random numbers (default: a new one each time)", 0,
     kMaxSeed},

    // eval
    {"rows", 0, Kind::kText, "all|last|I,J", verbs(Verb::kEval),
     "positions whose values are wanted, in the order given (default last)"},
    {"taps", 0, Kind::kText, "NAMES", verbs(Verb::kEval), "inner values to write, such as hidden", 0, 0, "", true},
    {"out", 0, Kind::kText, "F.safetensors", verbs(Verb::kEval), "the file to write"},
    {"chunk", 0, Kind::kInteger, "N", verbs(Verb::kEval), "prefill chunk, a multiple of 64 (default 512)", 64,
     kMaxCount, "", false, "phase"},
    {"step", 0, Kind::kInteger, "W", verbs(Verb::kEval), "feed W tokens a step through the decode phase", 1, 15, "",
     false, "phase"},
    {"copies", 0, Kind::kInteger, "S", verbs(Verb::kEval), "compute S equal sequences in one batch and compare them", 1,
     1024},
    {"ranks", 0, Kind::kInteger, "N", verbs(Verb::kEval), "the same as --tensor-parallel", 1, 64, "", false, "ranks"},
    {"entry", 0, Kind::kText, "NAME", verbs(Verb::kEval, Verb::kInspect),
     "main, or a draft such as draft.0: row t of draft.k joins token t + 1 + k and a hidden row of position t"},
    {"draft", 0, Kind::kText, "FILE", verbs(Verb::kEval, Verb::kInspect),
     "the file that holds the drafts, if the model's own does not"},
    {"overlay", 0, Kind::kText, "FILE", verbs(Verb::kEval),
     "rows in place of embeddings, such as an image's: a safetensors file of rows [n, width], positions [n] and, for "
     "rows that see each other both ways, spans [n] (ids, -1 = none)"},

    // perplexity
    {"score", 0, Kind::kChoice, "half|all", verbs(Verb::kPerplexity),
     "half: the second half of each window of CTX tokens, 512 if not given (default); all: one context, every token "
     "but the first",
     0, 0, "half|all"},

    // tokenize
    {"no-bos", 0, Kind::kSwitch, "", verbs(Verb::kTokenize), "no beginning-of-text token"},
    {"decode", 0, Kind::kText, "IDS|@FILE", verbs(Verb::kTokenize), "print the text of token ids"},

    // bench
    {"n-prompt", 'p', Kind::kInteger, "N", verbs(Verb::kBench), "prompt tokens (default 512)", 0, kMaxCount},
    {"n-gen", 'n', Kind::kInteger, "N", verbs(Verb::kBench), "decode steps after the prompt (default 128)", 0,
     kMaxCount},
    {"repetitions", 'r', Kind::kInteger, "N", verbs(Verb::kBench), "timed rounds (default 5)", 1, 100000},

    // inspect
    {"tensors", 0, Kind::kSwitch, "", verbs(Verb::kInspect), "every tensor", 0, 0, "", false, "view"},
    {"plan", 0, Kind::kSwitch, "", verbs(Verb::kInspect), "memory, by what it is for", 0, 0, "", false, "view"},
    {"kernels", 0, Kind::kSwitch, "", verbs(Verb::kInspect), "the kernel of every node, and why not the others", 0, 0,
     "", false, "view"},
    {"graph", 0, Kind::kSwitch, "", verbs(Verb::kInspect), "the compiled graph", 0, 0, "", false, "view"},

    // quantize
    {"type", 0, Kind::kText, "T", verbs(Verb::kQuantize),
     "Q4_K_M, Q8_0, BF16 … (another name prints them all); mixes give some tensors more bits, as in llama.cpp"},
    {"force", 0, Kind::kSwitch, "", verbs(Verb::kQuantize), "replace OUT.gguf if it is there"},

    {"json", 0, Kind::kSwitch, "",
     verbs(Verb::kRun, Verb::kPerplexity, Verb::kTokenize, Verb::kBench, Verb::kInspect, Verb::kPlugins), "print JSON"},

    // Common flags: every verb takes them, so that a script can pass them everywhere.
    {"threads", 't', Kind::kInteger, "N", kEveryVerb, "worker threads (default: the machine's cores)", 1, 1024},
    {"backend", 0, Kind::kText, "NAME|auto", kEveryVerb,
     "auto, cpu, reference or another that `tenon plugins list` shows (default auto = cpu)"},
    {"precision", 0, Kind::kChoice, "exact|default|fast", kEveryVerb,
     "exact: f32 activations and cache; default and fast: quantized activations, f16 cache", 0, 0,
     "exact|default|fast"},
    {"ctx-size", 'c', Kind::kInteger, "N", kEveryVerb,
     "context in tokens (default: 8192, or what the prompt needs, but at most what the model was trained for)", 4,
     kMaxCount},
    {"cache-type-k", 0, Kind::kText, "TYPE", kEveryVerb,
     "type of cached keys: f32, f16, bf16, q8_0, q4_0 … (default f16; f32 with exact)"},
    {"cache-type-v", 0, Kind::kText, "TYPE", kEveryVerb,
     "type of cached values, as for keys (default f16; f32 with exact)"},
    {"prefer", 0, Kind::kText, "KERNELS", kEveryVerb, "kernel names or prefixes to take first, with commas between", 0,
     0, "", true},
    {"forbid", 0, Kind::kText, "KERNELS", kEveryVerb, "kernel names or prefixes not to take, with commas between", 0, 0,
     "", true},
    {"plugin-path", 0, Kind::kText, "DIRS", kEveryVerb, "directories with plugins, with colons between, searched first",
     0, 0, "", true, "", true},
    {"tensor-parallel", 0, Kind::kRanks, "N|LIST", kEveryVerb,
     "ranks that share each layer and the threads (default 1; as many as mpirun has started), or layers with their ranks: '0-3@0,1;4-7@2,3'", 1, 64,
     "", false, "ranks"},
    {"expert-parallel", 0, Kind::kRanks, "N|LIST", kEveryVerb,
     "owners that the experts of a layer are dealt over (default 1), or layers with their ranks", 1, 64},
    {"pipeline-parallel", 0, Kind::kInteger, "N", kEveryVerb, "stages of whole layers, each with ranks of its own", 1, 64},
    {"device", 0, Kind::kInteger, "N", kEveryVerb, "device to run on (default 0)", 0, 1023, "", false, "devices"},
    {"devices", 0, Kind::kNumbers, "N,M", kEveryVerb, "device of each rank (default: rank after rank)", 0, 1023, "", false, "devices"},
    {"expert-owners", 0, Kind::kChoice, "contiguous|interleaved", kEveryVerb,
     "which experts an owner has: neighbours, or every n-th (default contiguous)", 0, 0, "contiguous|interleaved"},
    {"sum-parts", 0, Kind::kParts, "P[,E]", kEveryVerb,
     "parts of each sum over what ranks share, and of those inside an expert; equal parts give equal bits on any number "
     "of ranks, 1 too (default: as few as the ranks allow)",
     1, 64},
    {"sums", 0, Kind::kChoice, "ordered|fast", kEveryVerb,
     "add the parts in order, or as the collective likes (default ordered)", 0, 0, "ordered|fast"},
    {"collective", 0, Kind::kText, "NAME", kEveryVerb,
     "what moves values between ranks (default: what fits the backend; mpi where mpirun has started several processes)"},
    {"rank-timeout", 0, Kind::kInteger, "S", kEveryVerb,
     "seconds that a rank may keep the others waiting (default 600)", 1, 86400},
    {"manifest", 0, Kind::kText, "FILE", kEveryVerb, "named models: MODEL is then one's name, or a path"},
    {"verbose", 'v', Kind::kSwitch, "", kEveryVerb, "say more on standard error; twice: even more", 0, 0, "", true},
    {"help", 'h', Kind::kSwitch, "", kEveryVerb, "this text"},
};

}  // namespace

std::span<const VerbSpec> verb_table() { return kVerbs; }
std::span<const OptionSpec> option_table() { return kOptions; }

const VerbSpec* find_verb(std::string_view name) {
  auto found =
      std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const VerbSpec& spec) { return spec.name == name; });
  return found == std::end(kVerbs) ? nullptr : found;
}

const VerbSpec& spec_of(Verb verb) {
  return *std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const VerbSpec& spec) { return spec.verb == verb; });
}

bool serves(const OptionSpec& option, Verb verb) { return (option.verbs & bit(verb)) != 0; }

const OptionSpec* find_option(Verb verb, std::string_view name) {
  auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                            [&](const OptionSpec& option) { return serves(option, verb) && option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

std::string environment_name(const OptionSpec& option) {
  std::string name = "TENON_";
  for (char letter : option.name)
    name += letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

}  // namespace tenon::launcher
