// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Claims QEMU's 82574L network cards as a driver called mlx5_core and puts a fake adapter on each. */
#include <linux/idr.h>
#include <linux/module.h>
#include "hca.h"

bool hca_infiniband;
module_param_named(ib, hca_infiniband, bool, 0444);
MODULE_PARM_DESC(ib, "InfiniBand link layer instead of Ethernet");

static DEFINE_IDA(indexes);

static void drop(struct hca *hca)
{
	if (hca->netdev) {
		unregister_netdev(hca->netdev);
		free_netdev(hca->netdev);
	}
	ida_free(&indexes, hca->index);
	ib_dealloc_device(&hca->ib);
}

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct hca *hca = ib_alloc_device(hca, ib);
	int error;

	if (!hca)
		return -ENOMEM;
	hca->index = ida_alloc(&indexes, GFP_KERNEL);
	if (hca->index < 0) {
		error = hca->index;
		ib_dealloc_device(&hca->ib);
		return error;
	}
	hca->pci = pci;
	hca->state = IB_PORT_ACTIVE;
	hca->width = 4;
	spin_lock_init(&hca->lock);
	init_waitqueue_head(&hca->hang);
	hca_dcb_defaults(hca);
	hca_set(hca, hca_find("module_millicelsius"), 45000, 0);
	hca_set(hca, hca_find("module_rx_microwatt"), 800, 0);
	hca_set(hca, hca_find("module_tx_microwatt"), 900, 0);
	error = pci_enable_device(pci);
	if (error)
		goto out;
	error = hca_netdev_add(hca);
	if (error)
		goto disable;
	error = hca_rdma_add(hca);
	if (error)
		goto disable;
	pci_set_drvdata(pci, hca);
	hca_control_add(hca);
	return 0;
disable:
	pci_disable_device(pci);
out:
	drop(hca);
	return error;
}

static void remove(struct pci_dev *pci)
{
	struct hca *hca = pci_get_drvdata(pci);

	/* First: readers that hang would keep the device from going. */
	hca_control_remove(hca);
	ib_unregister_device(&hca->ib);
	drop(hca);
	pci_disable_device(pci);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(PCI_VENDOR_ID_INTEL, 0x10d3) }, {} };
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = {
	.name = "mlx5_core",
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

static int __init start(void)
{
	int error;

	hca_table_init();
	hca_rdma_init();
	error = hca_wire_init();
	if (error)
		return error;
	error = hca_control_init();
	if (error)
		goto wire;
	error = pci_register_driver(&driver);
	if (error)
		goto control;
	return 0;
control:
	hca_control_exit();
wire:
	hca_wire_exit();
	return error;
}

static void __exit end(void)
{
	/* The control file first: a writer must not meet a device that is going. */
	hca_control_exit();
	pci_unregister_driver(&driver);
	hca_wire_exit();
}

module_init(start);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Fake host channel adapters with mlx5's names, for tests");
