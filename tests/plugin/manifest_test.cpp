// Manifests: what is read, and that an error names file, line and column.
#include "manifest/manifest_size.hpp"
#include "plugin/manifest.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tenon/error.hpp>

namespace tenon::test {
namespace {

using plugin::Manifest;
using plugin::parse_manifest;

const std::string kHash(64, 'a');

std::string good() {
  return "name: \"fake\"\n"                 // line 1
         "version: \"1.0\"\n"               // 2
         "kind: FORMAT\n"                   // 3
         "abi_major: 0\n"                   // 4
         "abi_minor: 1\n"                   // 5
         "library: \"libtenon_fake.so\"\n"  // 6
         "sha256: \"" +
         kHash +
         "\"\n"                            // 7
         "format: \"fake\"\n"              // 8
         "format_magic: \"F\\0\\x01K\"\n"  // 9
         "format_extension: \".fake\"\n"   // 10
         "kernels { backend: \"cpu\" op: \"linear\" dtype: \"q4\" dtype: \"q8\" feature: \"avx2\" }\n";
}

std::string with(const std::string& line, const std::string& other) {
  std::string text = good();
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

std::string error_of(const std::string& text) {
  try {
    parse_manifest("dir/x.txtpb", text);
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    return error.what();
  }
}

void expect_error(const std::string& text, const std::string& place, const std::string& what) {
  const std::string error = error_of(text);
  EXPECT_EQ(error.substr(0, 12 + place.size() + 2), "dir/x.txtpb:" + place + ": ") << error;
  EXPECT_NE(error.find(what), std::string::npos) << error;
}

TEST(Manifest, EveryFieldIsRead) {
  const Manifest m = parse_manifest("x", good() + "priority: -3\n");
  EXPECT_EQ(m.name, "fake");
  EXPECT_EQ(m.version, "1.0");
  EXPECT_EQ(m.kind, "format");
  EXPECT_EQ(m.abi_major, 0u);
  EXPECT_EQ(m.abi_minor, 1u);
  EXPECT_EQ(m.library, "libtenon_fake.so");
  EXPECT_EQ(m.sha256, kHash);
  EXPECT_EQ(m.priority, -3);
  EXPECT_EQ(m.formats, std::vector<std::string>{"fake"});
  EXPECT_EQ(m.format_magics, std::vector<std::string>{std::string("F\0\x01K", 4)});
  EXPECT_EQ(m.format_extensions, std::vector<std::string>{".fake"});
  ASSERT_EQ(m.kernels.size(), 1u);
  EXPECT_EQ(m.kernels[0].backend, "cpu");
  EXPECT_EQ(m.kernels[0].ops, std::vector<std::string>{"linear"});
  EXPECT_EQ(m.kernels[0].dtypes, (std::vector<std::string>{"q4", "q8"}));
  EXPECT_EQ(m.kernels[0].features, std::vector<std::string>{"avx2"});
}

TEST(Manifest, WhatIsNotTextFormatIsRefused) {
  expect_error("", "1:1", "name: missing");
  expect_error("name \"x\"", "1:6", "");
  expect_error(good() + "name", "12:5", "");
  expect_error(std::string("\x7f"
                           "ELF\0\0",
                           6),
               "1:1", "");
  expect_error(with("version: \"1.0\"", "version: \"1.0"), "2:14", "");
}

TEST(Manifest, UnknownFieldsAreNamedWithTheirPlace) {
  expect_error(with("version:", "verzion:"), "2:8", "no field named \"verzion\"");
  expect_error(good() + "  kernels { backend: \"cpu\" speed: 3 }\n", "12:33", "no field named \"speed\"");
  // The parser has read on to the next field when it looks at an enumeration's value.
  expect_error(with("FORMAT", "FORMATS"), "4:1", "Unknown enumeration value of \"FORMATS\" for field \"kind\"");
}

TEST(Manifest, AFieldThatIsThereTwiceContradictsItself) {
  expect_error(good() + "version: \"2\"\n", "12:8", "\"version\" is specified multiple times");
  expect_error(good() + "priority: 0\npriority: 0\n", "13:9", "\"priority\" is specified multiple times");
}

TEST(Manifest, FieldsThatAreMissing) {
  expect_error(with("name: \"fake\"", ""), "1:1", "name: missing");
  expect_error(with("version: \"1.0\"", ""), "1:1", "version: missing");
  expect_error(with("kind: FORMAT", ""), "1:1", "kind: missing");
  expect_error(with("abi_major: 0", ""), "1:1", "abi_major: missing");
  expect_error(with("abi_minor: 1", ""), "1:1", "abi_minor: missing");
  expect_error(with("library: \"libtenon_fake.so\"", ""), "1:1", "library: missing");
  expect_error(with("sha256: \"" + kHash + "\"", ""), "1:1", "sha256: missing");
}

TEST(Manifest, FieldsOfAWrongValue) {
  expect_error(with("\"fake\"\nversion", "\"Fake\"\nversion"), "1:1", "name: expected up to 64 of a-z");
  expect_error(with("\"fake\"\nversion", "\"../x\"\nversion"), "1:1", "name: ");
  expect_error(with("abi_major: 0", "abi_major: -1"), "4:12", "");
  expect_error(with("FORMAT", "PLUGIN_KIND_UNSPECIFIED"), "3:1", "kind: expected ARCHITECTURE");
  expect_error(with(kHash, std::string(64, 'A')), "7:1", "sha256: expected 64 lower-case");
  expect_error(with(kHash, "aa"), "7:1", "sha256: ");
  expect_error(with(".fake\"", "fake\""), "10:1", "format_extension: expected '.' and a name");
  expect_error(with("backend: \"cpu\" ", ""), "11:1", "kernels: without a backend");
  expect_error(good() + "format: \"\"\n", "12:1", "format: empty");
}

TEST(Manifest, ALibraryOutsideOfTheDirectory) {
  for (const char* path : {"", "/lib/x.so", "../x.so", "a/../../x.so", "a/..", "..", "a/", "x\\000.so"})
    expect_error(with("libtenon_fake.so", path), "6:1", "library: expected a file inside the manifest's directory");
  EXPECT_EQ(parse_manifest("x", with("libtenon_fake.so", "inner/x.so")).library, "inner/x.so");
}

TEST(Manifest, WhatIsProvidedContradictsTheKind) {
  expect_error(good() + "architecture: \"x\"\n", "12:1", "architecture: contradicts kind: format");
  expect_error(good() + "backend: \"x\"\n", "12:1", "backend: contradicts kind: format");
  expect_error(with("FORMAT", "KERNELS"), "8:1", "format: contradicts kind: kernels");
  expect_error(with("format: \"fake\"", ""), "3:1", "kind: format without a field 'format'");
  const std::string kernels =
      R"(name: "k" version: "1" kind: KERNELS abi_major: 0 abi_minor: 1 library: "k.so" sha256: ")" +
      std::string(64, '0') + "\"\n";
  expect_error(kernels, "1:24", "kind: kernels without a field 'kernels' or 'dtype'");
  EXPECT_EQ(parse_manifest("k", kernels + "dtype: \"d\"\n").dtypes, std::vector<std::string>{"d"});
  expect_error(with("format_magic: \"F\\0\\x01K\"\nformat_extension: \".fake\"\n", ""), "8:1", "no file selects it");
}

TEST(Manifest, TooManyBytes) {
  EXPECT_NE(error_of(good() + std::string(manifest::kMaxManifestBytes, ' ')).find("more than 1048576 bytes"),
            std::string::npos);
}

TEST(Manifest, DeepNestingIsRefused) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "kernels { ";
  EXPECT_NE(error_of(text), "no error");
}

}  // namespace
}  // namespace tenon::test
