// A libcuda that runs the kernels of a shim library, compiled with CUDA's own header: what our launcher
// hands over has to be laid out as the header says. A "cubin" is the path of the library.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <vector>

#include <cuda.h>

struct Launch {
  unsigned grid[3], block[3], shared_bytes, seed, threads;
};
typedef int (*Kernel)(const Launch*, void**, char*, size_t);

static char last_error[1024];
static int largest_dynamic = 48 * 1024, launches_with_overlap, current, nothing_runs, loaded, carveouts, launches_with_gil;

// The kernels of a shim library, which GNU's nm reads.
static std::vector<std::string> kernels_of(CUmodule module) {
  struct link_map* map = nullptr;
  std::vector<std::string> names;
  if (dlinfo(module, RTLD_DI_LINKMAP, &map)) return names;
  FILE* const pipe = popen((std::string("nm -D --defined-only ") + map->l_name).c_str(), "r");
  char line[512], name[256];
  while (pipe && fgets(line, sizeof line, pipe))
    if (sscanf(line, "%*s T shim_%255s", name) == 1) names.push_back(name);
  if (pipe) pclose(pipe);
  return names;
}

static int capability() {
  const char* const wanted = getenv("FAKE_DRIVER_CAPABILITY");
  return wanted ? atoi(wanted) : 90;
}

extern "C" {

CUresult cuInit(unsigned flags) { return flags || getenv("FAKE_DRIVER_WITHOUT_GPU") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = 7;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(size_t(0x1234567890));
  return device == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current = reinterpret_cast<size_t>(context) == 0x1234567890;
  return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
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
  *module = static_cast<CUmodule>(dlopen(static_cast<const char*>(image), RTLD_NOW));
  return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "shim_%s", name);
  *function = reinterpret_cast<CUfunction>(dlsym(module, symbol));
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  *count = unsigned(kernels_of(module).size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  const std::vector<std::string> names = kernels_of(module);
  if (count > names.size()) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) cuModuleGetFunction(&functions[i], module, names[i].c_str());
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  Dl_info symbol;
  if (!dladdr(reinterpret_cast<void*>(function), &symbol) || !symbol.dli_sname) return CUDA_ERROR_INVALID_VALUE;
  *name = symbol.dli_sname + strlen("shim_");
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  ++loaded;
  return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    ++carveouts;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  largest_dynamic = value;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (!current || extra || config->sharedMemBytes > unsigned(largest_dynamic)) return CUDA_ERROR_INVALID_VALUE;
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
  const Kernel kernel = reinterpret_cast<Kernel>(function);
  return kernel(&how, parameters, last_error, sizeof last_error) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
    case CUDA_ERROR_NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    case CUDA_ERROR_INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
    case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    default: *name = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

int fake_launches_with_overlap() { return launches_with_overlap; }
int fake_launches_with_gil() { return launches_with_gil; }
int fake_carveouts() { return carveouts; }
int fake_functions_loaded() { return loaded; }
void fake_nothing_runs(int nothing) { nothing_runs = nothing; }

}
