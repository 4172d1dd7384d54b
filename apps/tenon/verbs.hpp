// verbs.hpp: the verbs. Each answers its exit status and throws Error; one call a process.
#pragma once

#include "arguments.hpp"

namespace tenon::launcher {

int run(const Arguments& arguments);
int eval(const Arguments& arguments);
int perplexity(const Arguments& arguments);
int tokenize(const Arguments& arguments);
int bench(const Arguments& arguments);
int inspect(const Arguments& arguments);
int plugins(const Arguments& arguments);
int chat(const Arguments& arguments);
int quantize(const Arguments& arguments);

}  // namespace tenon::launcher
