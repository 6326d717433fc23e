/* pci.h - PCI devices: finding them, their registers, their interrupts. At boot only. */
#ifndef ARCH_PCI_H
#define ARCH_PCI_H

#include "base/kernel.h"

struct pci_device {
    uint8_t bus, slot, function;
    uint16_t vendor, id;
};

enum { PCI_CAPABILITY_VENDOR = 0x09, PCI_CAPABILITY_MSIX = 0x11 };

/* Calls fn for every device behind the host bridge and the bridges that the firmware set up. */
void pci_for(void (*fn)(const struct pci_device *d, void *arg), void *arg);

uint8_t pci_read8(const struct pci_device *d, unsigned offset);
uint32_t pci_read32(const struct pci_device *d, unsigned offset);

/* The n-th capability with this id (from 0); 0: there is none. */
unsigned pci_capability(const struct pci_device *d, uint8_t id, unsigned n);
/* Lets the device answer at its BARs and write to memory. */
void pci_enable(const struct pci_device *d);
/* Maps bytes of a memory BAR; NULL if it is none, was given no address, or is too small. */
must_check void *pci_map_bar(const struct pci_device *d, unsigned bar, uint64_t offset,
                             uint64_t bytes);
/* Switches the device to MSI-X, its entry 0 calling handler(arg) in CPU 0. 0 or -errno. */
must_check int pci_msix(const struct pci_device *d, void (*handler)(void *), void *arg);

#endif
