// naming.hpp: errors about a file carry the file's name.
#pragma once

#include <tenon/error.hpp>

#include <string>
#include <utility>

namespace tenon::engine {

// Runs `call`. Code that sees only a part of a file (its metadata, its tokenizer, its shapes) throws messages without the
// file's name; they get it here. A draft's file is always named as such, and then the model's is not.
template <typename Call>
decltype(auto) naming(const std::string& path, const std::string& kind, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool is_named = what.starts_with("draft file '") || (kind == "model file" && what.find(path) != std::string::npos);
    if (error.kind() != ErrorKind::kFile || is_named) throw;
    throw Error(ErrorKind::kFile, kind + " '" + path + "': " + what);
  }
}

template <typename Call>
decltype(auto) naming(const std::string& path, Call&& call) {
  return naming(path, "model file", std::forward<Call>(call));
}

}  // namespace tenon::engine
