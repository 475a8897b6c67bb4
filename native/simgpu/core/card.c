#include "card.h"

#include <stdio.h>
#include <string.h>

static const struct card_model models[] = {
    {.key = "t4",
     .name = "Tesla T4",
     .vram_mib = 15360,
     .context_mib = 104,
     .major = 7,
     .minor = 5,
     .sm_count = 40,
     .threads_per_sm = 1024,
     .blocks_per_sm = 16,
     .shared_per_sm = 65536,
     .shared_optin = 65536,
     .l2_bytes = 4 << 20,
     .bus_bits = 256,
     .sm_mhz = 585,
     .sm_max_mhz = 1590,
     .memory_mhz = 5001,
     .power_idle_mw = 9620,
     .power_limit_mw = 70000,
     .celsius = 34,
     .slowdown_celsius = 93,
     .pci_device = 0x1EB810DE,
     .pci_subsystem = 0x12A210DE,
     .pcie_generation = 3,
     .brand = 2, // NVML_BRAND_TESLA
     .architecture = 6,
     .fan = SIM_FAN_NONE},
    {.key = "a10",
     .name = "NVIDIA A10",
     .vram_mib = 23028,
     .context_mib = 254,
     .major = 8,
     .minor = 6,
     .sm_count = 72,
     .threads_per_sm = 1536,
     .blocks_per_sm = 16,
     .shared_per_sm = 102400,
     .shared_optin = 101376,
     .l2_bytes = 6 << 20,
     .bus_bits = 384,
     .sm_mhz = 885,
     .sm_max_mhz = 1695,
     .memory_mhz = 6251,
     .power_idle_mw = 20100,
     .power_limit_mw = 150000,
     .celsius = 38,
     .slowdown_celsius = 95,
     .pci_device = 0x223610DE,
     .pci_subsystem = 0x148210DE,
     .pcie_generation = 4,
     .brand = 14, // NVML_BRAND_NVIDIA
     .architecture = 7,
     .fan = SIM_FAN_NONE},
    {.key = "a100-40gb",
     .name = "NVIDIA A100-SXM4-40GB",
     .vram_mib = 40960,
     .context_mib = 420,
     .major = 8,
     .minor = 0,
     .sm_count = 108,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .shared_per_sm = 167936,
     .shared_optin = 166912,
     .l2_bytes = 40 << 20,
     .bus_bits = 5120,
     .sm_mhz = 1095,
     .sm_max_mhz = 1410,
     .memory_mhz = 1215,
     .power_idle_mw = 52300,
     .power_limit_mw = 400000,
     .celsius = 31,
     .slowdown_celsius = 92,
     .pci_device = 0x20B010DE,
     .pci_subsystem = 0x144E10DE,
     .pcie_generation = 4,
     .brand = 14,
     .architecture = 7,
     .fan = SIM_FAN_NONE,
     .mig_capable = 1,
     .peers = 1},
    {.key = "h200",
     .name = "NVIDIA H200",
     .vram_mib = 143771,
     .context_mib = 518,
     .major = 9,
     .minor = 0,
     .sm_count = 132,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .shared_per_sm = 233472,
     .shared_optin = 232448,
     .l2_bytes = 50 << 20,
     .bus_bits = 6144,
     .sm_mhz = 1830,
     .sm_max_mhz = 1980,
     .memory_mhz = 3201,
     .power_idle_mw = 76500,
     .power_limit_mw = 700000,
     .celsius = 29,
     .slowdown_celsius = 90,
     .pci_device = 0x233510DE,
     .pci_subsystem = 0x18BE10DE,
     .pcie_generation = 5,
     .brand = 14,
     .architecture = 9,
     .fan = SIM_FAN_NONE,
     .mig_capable = 1,
     .peers = 1},
};

static const uint32_t model_count = sizeof models / sizeof models[0];

const struct card_model *card_model_by_key(const char *key, uint32_t *index)
{
    for (uint32_t i = 0; i < model_count; i++) {
        if (strcmp(models[i].key, key) == 0) {
            *index = i;
            return &models[i];
        }
    }
    return NULL;
}

const struct card_model *card_model_at(uint32_t index)
{
    return index < model_count ? &models[index] : NULL;
}

// splitmix64: well-known bits from a small seed.
static uint64_t mix(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void card_uuid(const struct card_model *model, unsigned card, uint8_t bytes[16])
{
    uint64_t seed = card + 1;
    for (const char *c = model->key; *c; c++)
        seed = seed * 131 + (unsigned char)*c;
    for (int half = 0; half < 2; half++) {
        uint64_t word = mix(&seed);
        for (int i = 0; i < 8; i++)
            bytes[half * 8 + i] = (uint8_t)(word >> (8 * i));
    }
    bytes[6] = (bytes[6] & 0x0f) | 0x40; // a random UUID by its form
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
}

void card_uuid_text(const struct card_model *model, unsigned card, char text[41])
{
    uint8_t b[16];
    card_uuid(model, card, b);
    snprintf(text, 41, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

unsigned card_pci_bus(unsigned card)
{
    return 0x17 + card * 4;
}
