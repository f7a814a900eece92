# Included by llama.cpp's own project() command (CMAKE_PROJECT_llama.cpp_INCLUDE).
# llama-cpp-python turns the common library on, which takes 43 % of the compile and which nothing
# of ours uses; a plain variable of this scope takes precedence over its cache entry.
set(LLAMA_BUILD_COMMON OFF)
set(LLAMA_BUILD_TOOLS OFF)
set(LLAMA_BUILD_EXAMPLES OFF)
set(LLAMA_BUILD_TESTS OFF)
