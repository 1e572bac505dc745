// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The network interface beside the RDMA device. It swallows what is sent: only its counters matter. */
#include <linux/etherdevice.h>
#include "hca.h"

struct private {
	struct hca *hca;
};

struct hca *hca_of(struct net_device *netdev)
{
	return ((struct private *)netdev_priv(netdev))->hca;
}

static int open(struct net_device *netdev)
{
	if (hca_of(netdev)->state == IB_PORT_ACTIVE)
		netif_carrier_on(netdev);
	return 0;
}

static int stop(struct net_device *netdev)
{
	netif_carrier_off(netdev);
	return 0;
}

static netdev_tx_t transmit(struct sk_buff *packet, struct net_device *netdev)
{
	dev_kfree_skb(packet);
	return NETDEV_TX_OK;
}

static void stats(struct net_device *netdev, struct rtnl_link_stats64 *to)
{
	struct hca *hca = hca_of(netdev);

	to->rx_packets = hca_read_name(hca, "rx_packets");
	to->rx_bytes = hca_read_name(hca, "rx_bytes");
	to->tx_packets = hca_read_name(hca, "tx_packets");
	to->tx_bytes = hca_read_name(hca, "tx_bytes");
}

static const struct net_device_ops ops = {
	.ndo_open = open,
	.ndo_stop = stop,
	.ndo_start_xmit = transmit,
	.ndo_get_stats64 = stats,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_mac_address = eth_mac_addr,
};

int hca_netdev_add(struct hca *hca)
{
	u8 mac[ETH_ALEN] = { 0xb8, 0xce, 0xf6, 0, 0, hca->index + 1 };
	struct net_device *netdev = alloc_etherdev(sizeof(struct private));
	int error;

	if (!netdev)
		return -ENOMEM;
	((struct private *)netdev_priv(netdev))->hca = hca;
	hca->netdev = netdev;
	snprintf(netdev->name, IFNAMSIZ, "ens%dnp0", hca->index);
	eth_hw_addr_set(netdev, mac);
	netdev->netdev_ops = &ops;
	netdev->ethtool_ops = &hca_ethtool_ops;
	netdev->dcbnl_ops = &hca_dcb_ops;
	netdev->max_mtu = 9000;
	netdev->mtu = 4200;
	SET_NETDEV_DEV(netdev, &hca->pci->dev);
	netif_carrier_off(netdev);
	error = register_netdev(netdev);
	if (error) {
		free_netdev(netdev);
		hca->netdev = NULL;
	}
	return error;
}
