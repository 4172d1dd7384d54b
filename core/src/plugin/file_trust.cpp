#include "file_trust.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace tenon::plugin {
namespace {

// True if `group` is the primary group of `user`. A user without an entry has the group of the same number.
bool is_own_group(uid_t user, gid_t group) {
  std::vector<char> buffer(16384);
  struct passwd entry {};
  struct passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_gid == group;
  return group == gid_t(user);
}

}  // namespace

std::string trust_fault(const std::string& path, const struct stat& status) {
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", unsigned(status.st_mode & 07777));
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return path + ": owned by user " + std::to_string(status.st_uid) + "; expected root or user " +
           std::to_string(geteuid());
  if (status.st_mode & S_IWOTH)
    return path + ": every user can write it (mode " + mode + "); take that away with chmod o-w";
  if ((status.st_mode & S_IWGRP) && !is_own_group(status.st_uid, status.st_gid))
    return path + ": group " + std::to_string(status.st_gid) + " can write it (mode " + mode +
           ") and is not its owner's own group; take that away with chmod g-w";
  return "";
}

std::string trust_fault(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return path + ": " + std::strerror(errno);
  return trust_fault(path, status);
}

}  // namespace tenon::plugin
