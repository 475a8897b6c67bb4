// What a simulated card is: the facts of one model.  Says nothing about what a card is doing (state.h, engine.h).
#ifndef SIM_CARD_H
#define SIM_CARD_H

#include <stdint.h>

#define MIB (UINT64_C(1) << 20)

enum sim_fan { SIM_FAN_NONE, SIM_FAN_ONE };

struct card_model {
    const char *key;  // as in HAMI_SIM_PROFILE
    const char *name; // as cuDeviceGetName and NVML print it
    uint64_t vram_mib;
    uint64_t context_mib; // what one context takes
    int major, minor;     // compute capability
    int sm_count;
    int threads_per_sm;
    int blocks_per_sm;
    int shared_per_sm; // bytes
    int shared_optin;  // bytes a block may ask for
    int l2_bytes;
    int bus_bits;
    int sm_mhz, sm_max_mhz, memory_mhz;
    unsigned power_idle_mw, power_limit_mw;
    unsigned celsius, slowdown_celsius;
    unsigned pci_device, pci_subsystem; // device << 16 | vendor
    unsigned pcie_generation;
    unsigned brand, architecture; // nvmlBrandType_t, nvmlDeviceArchitecture_t
    enum sim_fan fan;
    int mig_capable;
    int peers; // reaches other cards' memory
};

// The model of that key, or NULL.  An index below card_model_count() names it in shared memory.
const struct card_model *card_model_by_key(const char *key, uint32_t *index);
const struct card_model *card_model_at(uint32_t index);

// 16 bytes, the same for the same model and card number on every machine.
void card_uuid(const struct card_model *model, unsigned card, uint8_t bytes[16]);
// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", 41 bytes with the NUL.
void card_uuid_text(const struct card_model *model, unsigned card, char text[41]);
unsigned card_pci_bus(unsigned card);

#endif
