extern "C" __attribute__((visibility("default"))) const void* tenon_plugin_entry() { return nullptr; }
#ifdef TWO_SYMBOLS
extern "C" __attribute__((visibility("default"))) int another_symbol() { return 2; }
#else
// Its only other symbols stay inside, so that what it links is what is wrong.
#endif
