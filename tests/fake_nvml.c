/* A stand-in for libnvidia-ml.so.1 with two GPUs, to the signatures and structures of nvml.h.
   -DOLD leaves out what old drivers lack; -DBROKEN fails to initialize, as without a loaded driver.
   State that tests change is in the fake_* variables. */
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };

typedef struct device { unsigned index; const char *uuid; } *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } nvmlPciInfo_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;

static struct device gpus[2] = {{0, "GPU-11111111-aaaa-bbbb-cccc-000000000000"}, {1, "GPU-22222222-aaaa-bbbb-cccc-000000000000"}};

int fake_open = 0;                             /* nvmlInit less nvmlShutdown */
int fake_lost = -1;                            /* the GPU that answers no more */
int fake_forbidden = -1;                       /* the GPU that this process may not see */
unsigned long long fake_energy = 5000000;      /* mJ */
unsigned fake_processes[2] = {0, 0};
unsigned long long fake_used[2] = {0, 0};      /* by processes, bytes */
unsigned long long fake_reasons = 0;

static int bad(nvmlDevice_t d) { return !fake_open ? UNINITIALIZED : (int)d->index == fake_lost ? GPU_IS_LOST : SUCCESS; }
#define CHECK(d) do { int code = bad(d); if (code) return code; } while (0)

#ifdef BROKEN
int nvmlInit_v2(void) { return DRIVER_NOT_LOADED; }
#else
int nvmlInit_v2(void) { fake_open++; return SUCCESS; }
#endif
int nvmlShutdown(void) { if (!fake_open) return UNINITIALIZED; fake_open--; return SUCCESS; }

static int text(const char *value, char *buffer, unsigned length) {
    if (strlen(value) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) { return text("570.86.15", version, length); }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return fake_open ? SUCCESS : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    if (index > 1) return INVALID_ARGUMENT;
    if ((int)index == fake_forbidden) return NO_PERMISSION;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    for (int i = 0; i < 2; i++)
        if (!strcmp(uuid, gpus[i].uuid)) { *device = &gpus[i]; return SUCCESS; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) { CHECK(device); return text(device->uuid, uuid, length); }
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) { CHECK(device); return text("NVIDIA H200", name, length); }

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    CHECK(device);
    memset(pci, 0, sizeof *pci);
    pci->domain = 0; pci->bus = 0x3b + device->index; pci->device = 0; pci->pciDeviceId = 0x233510de;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    CHECK(device);
    memory->total = 150754820096ULL; memory->used = fake_used[device->index] + 650000000ULL; memory->free = memory->total - memory->used;
    return SUCCESS;
}

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    CHECK(device);
    if (memory->version != (sizeof(nvmlMemory_v2_t) | 2u << 24)) return VERSION_MISMATCH;
    memory->total = 150754820096ULL; memory->reserved = 650000000ULL; memory->used = fake_used[device->index];
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy) {
    CHECK(device); *energy = fake_energy + device->index; return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
    CHECK(device);
    unsigned running = fake_processes[device->index];
    if (*count < running) { *count = running; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < running; i++) {
        infos[i].pid = 4000 + i;
        infos[i].usedGpuMemory = i % 2 ? ~0ULL : fake_used[device->index];
        infos[i].gpuInstanceId = infos[i].computeInstanceId = ~0u;
    }
    *count = running;
    return SUCCESS;
}
#else
int nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy) { (void)device; (void)energy; return NOT_SUPPORTED; }
#endif

int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *power) { CHECK(device); *power = 654321; return SUCCESS; }

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    CHECK(device); rates->gpu = 97; rates->memory = 41; return SUCCESS;
}

int nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *clock) {
    CHECK(device);
    if (type != 1 /* NVML_CLOCK_SM */) return INVALID_ARGUMENT;
    *clock = 1980; return SUCCESS;
}

int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *temperature) {
    CHECK(device);
    if (sensor != 0 /* NVML_TEMPERATURE_GPU */) return INVALID_ARGUMENT;
    *temperature = 67; return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    CHECK(device); *reasons = fake_reasons; return SUCCESS;
}
