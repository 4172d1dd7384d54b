# Run with cmake -P, or included with the variables set: writes <library>.tenon.txtpb beside the library.
#   LIBRARY    the library as it now is
#   TEMPLATE   the manifest without its hash
cmake_policy(VERSION 3.25)

file(SHA256 ${LIBRARY} tenon_hash)
file(READ ${TEMPLATE} tenon_text)
# Through a second file, so that nobody reads half a manifest.
file(WRITE ${LIBRARY}.tenon.txtpb.new "${tenon_text}sha256: \"${tenon_hash}\"\n")
file(RENAME ${LIBRARY}.tenon.txtpb.new ${LIBRARY}.tenon.txtpb)
