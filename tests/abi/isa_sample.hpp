// What every instruction set's objects and the baseline share. The inline functions and the class say for which set the
// copy was built that is called.
#pragma once

inline constexpr int kBaseline = 0;
#if defined(TENON_ISA_avx512)
inline constexpr int kBuiltFor = 3;
#elif defined(TENON_ISA_avx2)
inline constexpr int kBuiltFor = 2;
#elif defined(TENON_ISA_portable)
inline constexpr int kBuiltFor = 1;
#else
inline constexpr int kBuiltFor = kBaseline;
#endif

__attribute__((noinline)) inline int inline_function() { return kBuiltFor; }

template <typename T>
__attribute__((noinline)) T function_template() {
  return T(kBuiltFor);
}

struct Shape {
  virtual ~Shape() = default;
  virtual int built_for() const { return kBuiltFor; }
};

inline int& shared_variable() {
  static int variable = 0;
  return variable;
}

struct Answers {
  int from_function, from_template, from_class;
  int* variable;
};
__attribute__((always_inline)) inline Answers answers() {
  const Shape object;
  const Shape* volatile shape = &object;
  return {inline_function(), function_template<int>(), shape->built_for(), &shared_variable()};
}

namespace portable {
Answers ask();
float multiply_add(float a, float b, float c);
}  // namespace portable
namespace avx2 {
Answers ask();
float multiply_add(float a, float b, float c);
}  // namespace avx2
namespace avx512 {
Answers ask();
float multiply_add(float a, float b, float c);
}  // namespace avx512
