// sanitized.hpp: TENON_ADDRESS_SANITIZER is 1 where the address sanitizer is compiled in, by GCC or clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define TENON_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef TENON_ADDRESS_SANITIZER
#define TENON_ADDRESS_SANITIZER 0
#endif
