// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* ethtool: the driver's own statistics, whose list follows the pause settings, and the standard ones. */
#include "hca.h"

#define VALUE(name) hca_read_name(hca_of(netdev), name)

/* mlx5 prints a priority's pause lines only while PFC is on for it, the global ones only while 802.3x is. */
static bool listed(struct hca *hca, const struct hca_counter *counter)
{
	switch (counter->group) {
	case HCA_ETH:
		return true;
	case HCA_PFC:
		return hca->pfc & BIT(counter->prio);
	case HCA_PAUSE:
		return hca->global_pause;
	default:
		return false;
	}
}

static int count(struct net_device *netdev, int set)
{
	struct hca *hca = hca_of(netdev);
	int i, n = 0, error;

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	error = hca_enter(hca, GATE_ETHTOOL);
	if (error)
		return error;
	for (i = 0; i < hca_ncounters; i++)
		n += listed(hca, &hca_counters[i]);
	return n;
}

static void strings(struct net_device *netdev, u32 set, u8 *to)
{
	int i;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < hca_ncounters; i++) {
		if (!listed(hca_of(netdev), &hca_counters[i]))
			continue;
		memcpy(to, hca_counters[i].name, ETH_GSTRING_LEN);
		to += ETH_GSTRING_LEN;
	}
}

static void statistics(struct net_device *netdev, struct ethtool_stats *stats, u64 *to)
{
	int i;

	for (i = 0; i < hca_ncounters; i++)
		if (listed(hca_of(netdev), &hca_counters[i]))
			*to++ = hca_read(hca_of(netdev), i);
}

static void driver_info(struct net_device *netdev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "mlx5_core", sizeof(info->driver));
	strscpy(info->fw_version, "22.36.1010 (MT_0000000359)", sizeof(info->fw_version));
	strscpy(info->bus_info, pci_name(hca_of(netdev)->pci), sizeof(info->bus_info));
}

static void pause_stats(struct net_device *netdev, struct ethtool_pause_stats *stats)
{
	stats->tx_pause_frames = VALUE("tx_pause_ctrl_phy");
	stats->rx_pause_frames = VALUE("rx_pause_ctrl_phy");
}

static void get_pause(struct net_device *netdev, struct ethtool_pauseparam *param)
{
	param->rx_pause = param->tx_pause = hca_of(netdev)->global_pause;
}

/* One excludes the other, as in the hardware. */
static int set_pause(struct net_device *netdev, struct ethtool_pauseparam *param)
{
	struct hca *hca = hca_of(netdev);

	hca->global_pause = param->rx_pause || param->tx_pause;
	if (hca->global_pause)
		hca->pfc = 0;
	return 0;
}

static void fec_stats(struct net_device *netdev, struct ethtool_fec_stats *stats)
{
	stats->corrected_blocks.total = VALUE("fec_corrected_blocks");
	stats->uncorrectable_blocks.total = VALUE("fec_uncorrectable_blocks");
	stats->corrected_bits.total = VALUE("fec_corrected_bits");
}

static int fec_param(struct net_device *netdev, struct ethtool_fecparam *param)
{
	param->fec = ETHTOOL_FEC_AUTO;
	param->active_fec = ETHTOOL_FEC_RS;
	return 0;
}

static void phy_stats(struct net_device *netdev, struct ethtool_eth_phy_stats *stats)
{
	stats->SymbolErrorDuringCarrier = VALUE("phy_symbol_errors");
}

static void mac_stats(struct net_device *netdev, struct ethtool_eth_mac_stats *stats)
{
	stats->FramesTransmittedOK = VALUE("mac_frames_tx");
	stats->FramesReceivedOK = VALUE("mac_frames_rx");
	stats->FrameCheckSequenceErrors = VALUE("mac_fcs_errors");
	stats->OctetsTransmittedOK = VALUE("mac_octets_tx");
	stats->OctetsReceivedOK = VALUE("mac_octets_rx");
}

static void ctrl_stats(struct net_device *netdev, struct ethtool_eth_ctrl_stats *stats)
{
	stats->MACControlFramesTransmitted = VALUE("ctrl_frames_tx");
	stats->MACControlFramesReceived = VALUE("ctrl_frames_rx");
}

static void rmon_stats(struct net_device *netdev, struct ethtool_rmon_stats *stats,
		       const struct ethtool_rmon_hist_range **ranges)
{
	static const struct ethtool_rmon_hist_range sizes[] = { { 0, 64 }, { 65, 1518 }, {} };

	stats->oversize_pkts = VALUE("rmon_oversize");
	stats->hist[0] = 0;
	stats->hist[1] = VALUE("mac_frames_rx");
	*ranges = sizes;
}

static int settings(struct net_device *netdev, struct ethtool_link_ksettings *to)
{
	struct hca *hca = hca_of(netdev);

	ethtool_link_ksettings_zero_link_mode(to, supported);
	ethtool_link_ksettings_add_link_mode(to, supported, 200000baseCR4_Full);
	ethtool_link_ksettings_add_link_mode(to, supported, 100000baseCR2_Full);
	to->base.speed = netif_carrier_ok(netdev) ? 50000 * hca->width : SPEED_UNKNOWN;
	to->base.duplex = DUPLEX_FULL;
	to->base.port = PORT_FIBRE;
	return 0;
}

static int ext_state(struct net_device *netdev, struct ethtool_link_ext_state_info *info)
{
	if (netif_carrier_ok(netdev) || !hca_of(netdev)->down_reason)
		return -ENODATA;
	info->link_ext_state = hca_of(netdev)->down_reason;
	return 0;
}

static void put16(u8 *page, int at, u64 value)
{
	page[at] = value >> 8;
	page[at + 1] = value;
}

/* Lower page of SFF-8636: identifier, temperature in 1/256 degrees, supply in 100 microvolts, power in 0.1 microwatts. */
static void module_page(struct net_device *netdev, u8 *page)
{
	int lane;

	page[0] = 0x11;
	page[1] = 0x08;
	page[2] = 0x04;	/* this page is all there is */
	put16(page, 22, VALUE("module_millicelsius") * 256 / 1000);
	put16(page, 26, 33000);
	for (lane = 0; lane < 4; lane++) {
		put16(page, 34 + 2 * lane, VALUE("module_rx_microwatt") * 10);
		put16(page, 42 + 2 * lane, 3000);
		put16(page, 50 + 2 * lane, VALUE("module_tx_microwatt") * 10);
	}
	page[128] = 0x11;
	page[220] = 0x0c;	/* transmit power is measured, receive power is an average */
}

static int module_info(struct net_device *netdev, struct ethtool_modinfo *info)
{
	info->type = ETH_MODULE_SFF_8636;
	info->eeprom_len = ETH_MODULE_SFF_8636_LEN;
	return 0;
}

static int module_eeprom(struct net_device *netdev, struct ethtool_eeprom *which, u8 *to)
{
	u8 page[ETH_MODULE_SFF_8636_LEN] = {};

	if (which->offset + which->len > sizeof(page))
		return -EINVAL;
	module_page(netdev, page);
	memcpy(to, page + which->offset, which->len);
	return 0;
}

static int module_by_page(struct net_device *netdev, const struct ethtool_module_eeprom *which,
			  struct netlink_ext_ack *ack)
{
	u8 page[ETH_MODULE_SFF_8636_LEN] = {};

	if (which->page || which->offset + which->length > sizeof(page))
		return -EINVAL;
	module_page(netdev, page);
	memcpy(which->data, page + which->offset, which->length);
	return which->length;
}

const struct ethtool_ops hca_ethtool_ops = {
	.get_drvinfo = driver_info,
	.get_sset_count = count,
	.get_strings = strings,
	.get_ethtool_stats = statistics,
	.get_pause_stats = pause_stats,
	.get_pauseparam = get_pause,
	.set_pauseparam = set_pause,
	.get_fec_stats = fec_stats,
	.get_fecparam = fec_param,
	.get_eth_phy_stats = phy_stats,
	.get_eth_mac_stats = mac_stats,
	.get_eth_ctrl_stats = ctrl_stats,
	.get_rmon_stats = rmon_stats,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = settings,
	.get_link_ext_state = ext_state,
	.get_module_info = module_info,
	.get_module_eeprom = module_eeprom,
	.get_module_eeprom_by_page = module_by_page,
};
