"""Quantized CPU kernels in C++ behind a C interface (`kernels.h`); `build` compiles them, `library` calls them."""
