// Runs a fuzz target where there is no libFuzzer: every file of the given folders, then random mutations of them.
//   TARGET [--runs N] [--seconds S] [--seed N] FOLDER|FILE …
// Without --runs and --seconds only the files themselves. The input in hand lies in crash-<pid> in the working
// directory when the program is stopped by it; given as FILE it is run again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "sanitized.hpp"
#include "target.hpp"

#if TENON_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

namespace fs = std::filesystem;

constexpr size_t kLargest = 64 << 10;
constexpr unsigned kHangSeconds = 60;

struct Options {
  uint64_t runs = 0, seed = 1;
  double seconds = 0;
  std::vector<fs::path> places;
};

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_flag = word == "--runs" || word == "--seconds" || word == "--seed";
    if (is_flag && i + 1 == argc) throw std::runtime_error(word + ": a number is missing");
    if (word == "--runs")
      out.runs = std::stoull(argv[++i]);
    else if (word == "--seconds")
      out.seconds = std::stod(argv[++i]);
    else if (word == "--seed")
      out.seed = std::stoull(argv[++i]);
    else
      out.places.emplace_back(word);
  }
  return out;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> seeds_in(const std::vector<fs::path>& places) {
  std::vector<fs::path> paths;
  for (const fs::path& place : places) {
    if (!fs::is_directory(place))
      paths.push_back(place);
    else
      for (const auto& entry : fs::recursive_directory_iterator(place))
        if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(read(path));
  if (out.empty()) throw std::runtime_error("no file to begin with");
  return out;
}

// The input in hand, for the handler of signals, which may not allocate.
std::string current;

void keep() {
  char name[32] = "crash-";
  char* end = name + 6;
  for (int rest = getpid(); rest > 0; rest /= 10) *end++ = char('0' + rest % 10);
  *end = 0;
  if (FILE* file = std::fopen(name, "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "the input is in %s\n", name);
}

void keep_and_die(int signal) {
  std::fprintf(stderr, "signal %d\n", signal);
  keep();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (uint64_t n = below(4) + 1; n > 0; --n) mutate(text);
    if (text.size() > kLargest) text.resize(kLargest);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void mutate(std::string& text) {
    const size_t at = text.empty() ? 0 : below(text.size());
    const size_t n = std::min<size_t>(text.size() - at, below(below(4) ? 8 : 256) + 1);
    switch (below(7)) {
      case 0:
        if (!text.empty()) text[at] = char(random_());
        break;
      case 1:
        if (!text.empty()) text[at] = char(text[at] ^ (1 << below(8)));
        break;
      case 2:
        text.erase(at, n);
        break;
      case 3:
        text.insert(at, text.substr(at, n));
        break;
      case 4:
        text.insert(at, std::string(below(8) + 1, char(random_())));
        break;
      case 5:
        write_number(text, at);
        break;
      default:
        splice(text, at);
        break;
    }
  }

  void write_number(std::string& text, size_t at) {
    static constexpr uint64_t kNumbers[] = {0,
                                            1,
                                            2,
                                            0x7f,
                                            0x80,
                                            0xff,
                                            0xffff,
                                            0x7fffffff,
                                            0x80000000,
                                            0xffffffff,
                                            uint64_t(1) << 40,
                                            INT64_MAX,
                                            uint64_t(1) << 63,
                                            ~uint64_t(0)};
    const uint64_t number = kNumbers[below(std::size(kNumbers))];
    const size_t n = std::min<size_t>(size_t(1) << below(4), text.size() - at);
    std::memcpy(text.data() + at, &number, n);
  }

  // A part of another seed.
  void splice(std::string& text, size_t at) {
    const std::string& other = seeds_[below(seeds_.size())];
    if (other.empty()) return;
    const size_t from = below(other.size());
    const std::string part = other.substr(from, below(64) + 1);
    text.replace(at, below(2) ? part.size() : 0, part);
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_;
};

void run(std::string text) {
  current = std::move(text);
  alarm(kHangSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
  alarm(0);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) std::signal(signal, keep_and_die);
#if TENON_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(keep);
#endif
  const std::vector<std::string> seeds = seeds_in(options.places);
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds, options.seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  uint64_t runs = 0;
  while (options.runs ? runs < options.runs : seconds() < options.seconds) run(mutator.next()), ++runs;
  std::printf("%zu files and %llu mutations in %.1f s\n", seeds.size(), static_cast<unsigned long long>(runs),
              seconds());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
