// A libcuda that runs the kernels of a shim library, compiled with CUDA's own header: what our launcher
// hands over has to be laid out as the header says. A "cubin" is the path of the library; or "=" and lines,
// a name and its kernels, before the real cubin: such kernels are handed to `fake_intercept`'s `launched`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <cuda.h>

struct Launch {
  unsigned grid[3], block[3], shared_bytes, seed, threads;
};
typedef int (*Kernel)(const Launch*, void**, char*, size_t);
// Called at the begin of each function; what is not 0 is its result.
typedef int (*Called)(const char* function);
typedef int (*Launched)(const char* module, const char* kernel, const Launch*, void** parameters);

struct Function {
  std::string module, name;
  Kernel kernel;
  unsigned most_shared = 48 * 1024;
};
typedef std::vector<Function*> Module;

static char last_error[1024];
static int launches_with_overlap, current, nothing_runs, loaded, carveouts, launches_with_gil;
static Called called;
static Launched launched;

#define ENTER() \
  if (const int result = called ? called(__func__) : 0) return CUresult(result)

// The kernels of a shim library, which GNU's nm reads.
static Module* library_of(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (!library) return nullptr;
  Module* const module = new Module;
  FILE* const pipe = popen((std::string("nm -D --defined-only ") + path).c_str(), "r");
  char line[512], name[256];
  while (pipe && fgets(line, sizeof line, pipe))
    if (sscanf(line, "%*s T shim_%255s", name) == 1)
      module->push_back(new Function{path, name, reinterpret_cast<Kernel>(dlsym(library, (std::string("shim_") + name).c_str()))});
  if (pipe) pclose(pipe);
  return module;
}

static Module* listed_in(const char* text) {
  Module* const module = new Module;
  std::string name;
  for (const char* line = text; *line;) {
    const char* const end = strchr(line, '\n');
    if (!end) return nullptr;
    const std::string found(line, end);
    if (line == text) name = found;
    else module->push_back(new Function{name, found, nullptr});
    line = end + 1;
  }
  return module;
}

static int capability() {
  const char* const wanted = getenv("FAKE_DRIVER_CAPABILITY");
  return wanted ? atoi(wanted) : 90;
}

extern "C" {

CUresult cuInit(unsigned flags) {
  ENTER();
  return flags || getenv("FAKE_DRIVER_WITHOUT_GPU") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER();
  *device = 7;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER();
  *context = reinterpret_cast<CUcontext>(size_t(0x1234567890));
  return device == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER();
  current = reinterpret_cast<size_t>(context) == 0x1234567890;
  return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  ENTER();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability() / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability() % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return device == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER();
  const char* const text = static_cast<const char*>(image);
  *module = reinterpret_cast<CUmodule>(*text == '=' ? listed_in(text + 1) : library_of(text));
  return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER();
  for (Function* each : *reinterpret_cast<Module*>(module))
    if (each->name == name) {
      *function = reinterpret_cast<CUfunction>(each);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  ENTER();
  *count = unsigned(reinterpret_cast<Module*>(module)->size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  ENTER();
  const Module& found = *reinterpret_cast<Module*>(module);
  if (count > found.size()) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) functions[i] = reinterpret_cast<CUfunction>(found[i]);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  ENTER();
  *name = reinterpret_cast<Function*>(function)->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  ENTER();
  ++loaded;
  return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER();
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    ++carveouts;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<Function*>(function)->most_shared = unsigned(value);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters, void** extra) {
  ENTER();
  const Function& function = *reinterpret_cast<Function*>(handle);
  if (!current || extra || config->sharedMemBytes > function.most_shared) return CUDA_ERROR_INVALID_VALUE;
  if (config->hStream && reinterpret_cast<size_t>(config->hStream) != 0xabcdef0123) return CUDA_ERROR_INVALID_HANDLE;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_INVALID_VALUE;
    if (attribute.value.programmaticStreamSerializationAllowed != 1) return CUDA_ERROR_INVALID_VALUE;
    ++launches_with_overlap;
  }
  static const auto holds_gil = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  launches_with_gil += holds_gil && holds_gil();
  if (nothing_runs) return CUDA_SUCCESS;
  const Launch how = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes, 0, 1};
  if (!function.kernel)
    return launched ? CUresult(launched(function.module.c_str(), function.name.c_str(), &how, parameters)) : CUDA_ERROR_NOT_INITIALIZED;
  return function.kernel(&how, parameters, last_error, sizeof last_error) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
#define NAME(error) case error: *name = #error; return CUDA_SUCCESS
  switch (error) {
    NAME(CUDA_ERROR_INVALID_VALUE);
    NAME(CUDA_ERROR_OUT_OF_MEMORY);
    NAME(CUDA_ERROR_NOT_INITIALIZED);
    NAME(CUDA_ERROR_DEVICE_UNAVAILABLE);
    NAME(CUDA_ERROR_NO_DEVICE);
    NAME(CUDA_ERROR_INVALID_DEVICE);
    NAME(CUDA_ERROR_INVALID_IMAGE);
    NAME(CUDA_ERROR_ECC_UNCORRECTABLE);
    NAME(CUDA_ERROR_NOT_FOUND);
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    NAME(CUDA_ERROR_LAUNCH_FAILED);
    NAME(CUDA_ERROR_NOT_SUPPORTED);
    NAME(CUDA_ERROR_UNKNOWN);
    default: *name = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
}

void fake_intercept(Called each_call, Launched each_launch) { called = each_call, launched = each_launch; }
int fake_launches_with_overlap() { return launches_with_overlap; }
int fake_launches_with_gil() { return launches_with_gil; }
int fake_carveouts() { return carveouts; }
int fake_functions_loaded() { return loaded; }
void fake_nothing_runs(int nothing) { nothing_runs = nothing; }

}
