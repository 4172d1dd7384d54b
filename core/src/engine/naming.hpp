// naming.hpp: errors about a model file carry the file's name.
#pragma once

#include <tenon/error.hpp>

#include <string>

namespace tenon::engine {

// Runs `call`. Code that sees only a part of a file (its metadata, its tokenizer, its shapes) throws messages without the
// file's name; they get it here.
template <typename Call>
decltype(auto) naming(const std::string& path, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.kind() != ErrorKind::kFile || what.find(path) != std::string::npos) throw;
    throw Error(ErrorKind::kFile, "model file '" + path + "': " + what);
  }
}

}  // namespace tenon::engine
