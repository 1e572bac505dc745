//! GPUs of the host: identity, PCIe link, and which adapter is near to which GPU. `gpu` is the position among the GPUs of
//! the host in the order of PCI addresses, from 0, as `nvidia-smi` counts.

use super::units::*;

metrics! {
    GPU_INFO, Info, Host, "fabric.gpu.info", None, ["driver", "gpu", "model", "numa_node", "pci_address", "vendor"],
        "A GPU or accelerator of the host: driver, PCI ids of vendor and device, NUMA node, PCI address, vendor (`nvidia`, `amd`, or the PCI vendor id). Unknown facts are left out.";
    GPU_XGMI_INFO, Info, Host, "fabric.gpu.xgmi.info", None, ["gpu", "hive", "node"],
        "Hive of AMD GPUs that are connected by xGMI, and the number of the GPU in it.";
    GPU_NIC_DISTANCE, Gauge, Device, "fabric.gpu.nic.distance", None, ["gpu"],
        "What a transfer between the adapter and the GPU crosses, in NVML's numbers: 10 at most one PCIe switch (PIX), 20 several (PXB), 30 a host bridge (PHB), 40 host bridges of one NUMA node (NODE), 50 of two NUMA nodes (SYS).";
    GPU_NIC_NEAREST, Gauge, Device, "fabric.gpu.nic.nearest", None, ["gpu"],
        "1 for the adapter that the GPU should use: the nearest one; GPUs that are equally near to several adapters take them in the order of rails.";
    GPUDIRECT_AVAILABLE, Gauge, Device, "fabric.gpudirect.available", None, ["method"],
        "1 if the adapter can read and write the memory of the host's GPUs directly (GPUDirect RDMA) by this method: `peer_memory` (a kernel module such as nvidia_peermem), `dma_buf` (adapter and GPU driver). Absent where it is not certain, and on hosts without GPUs.";
    GPU_PCIE_SPEED, Gauge, Host, "fabric.gpu.pcie.lane.speed", Count("{transfer}/s"), ["gpu"],
        "Negotiated PCIe speed per lane of the GPU in transfers per second. An idle GPU may lower it.";
    GPU_PCIE_SPEED_MAX, Gauge, Host, "fabric.gpu.pcie.lane.speed.max", Count("{transfer}/s"), ["gpu"],
        "Highest PCIe speed per lane that the GPU can do.";
    GPU_PCIE_WIDTH, Gauge, Host, "fabric.gpu.pcie.width", Count("{lane}"), ["gpu"],
        "Negotiated PCIe lanes of the GPU.";
    GPU_PCIE_WIDTH_MAX, Gauge, Host, "fabric.gpu.pcie.width.max", Count("{lane}"), ["gpu"],
        "PCIe lanes that the GPU can use.";
    GPU_PCIE_RATE, Gauge, Host, "fabric.gpu.pcie.rate", BytesPerSecond, ["gpu"],
        "Bandwidth of the narrowest PCIe link from the GPU to the root, one direction, after line coding.";
    GPU_PCIE_RATE_MAX, Gauge, Host, "fabric.gpu.pcie.rate.max", BytesPerSecond, ["gpu"],
        "Bandwidth of the GPU's PCIe path if every link ran at the highest speed and width that both its ends support.";
}
