#include <unistd.h>

#include "launch.hpp"

int main(int argc, char** argv) {
  return tenon::launcher::launch({argv + (argc > 0 ? 1 : 0), argv + argc}, tenon::launcher::read_environment(environ));
}
