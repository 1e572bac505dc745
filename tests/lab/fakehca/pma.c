// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Performance management agent: the counters of a port, with the widths of hardware. */
#include <rdma/ib_pma.h>
#include "hca.h"

/* Without an adapter (a port of the switch with no cable): zero. */
static u64 counter(struct hca *hca, const char *prefix, const char *name)
{
	char full[HCA_NAME];

	snprintf(full, sizeof(full), "%s%s", prefix, name);
	return hca ? hca_read_name(hca, full) : 0;
}

static void port_counters(struct hca *hca, const char *prefix, struct ib_pma_portcounters *c)
{
#define PMA(name) counter(hca, prefix, name)
	memset(c, 0, sizeof(*c));
	c->symbol_error_counter = cpu_to_be16(PMA("symbol_error"));
	c->link_error_recovery_counter = PMA("link_error_recovery");
	c->link_downed_counter = PMA("link_downed");
	c->port_rcv_errors = cpu_to_be16(PMA("port_rcv_errors"));
	c->port_rcv_remphys_errors = cpu_to_be16(PMA("port_rcv_remote_physical_errors"));
	c->port_rcv_switch_relay_errors = cpu_to_be16(PMA("port_rcv_switch_relay_errors"));
	c->port_xmit_discards = cpu_to_be16(PMA("port_xmit_discards"));
	c->port_xmit_constraint_errors = PMA("port_xmit_constraint_errors");
	c->port_rcv_constraint_errors = PMA("port_rcv_constraint_errors");
	c->link_overrun_errors = PMA("local_link_integrity_errors") << 4 | PMA("excessive_buffer_overrun_errors");
	c->vl15_dropped = cpu_to_be16(PMA("VL15_dropped"));
	c->port_xmit_wait = cpu_to_be32(PMA("port_xmit_wait"));
}

static void port_counters_ext(struct hca *hca, const char *prefix, struct ib_pma_portcounters_ext *c)
{
	memset(c, 0, sizeof(*c));
	c->port_xmit_data = cpu_to_be64(PMA("port_xmit_data"));
	c->port_rcv_data = cpu_to_be64(PMA("port_rcv_data"));
	c->port_xmit_packets = cpu_to_be64(PMA("port_xmit_packets"));
	c->port_rcv_packets = cpu_to_be64(PMA("port_rcv_packets"));
	c->port_unicast_xmit_packets = cpu_to_be64(PMA("unicast_xmit_packets"));
	c->port_unicast_rcv_packets = cpu_to_be64(PMA("unicast_rcv_packets"));
	c->port_multicast_xmit_packets = cpu_to_be64(PMA("multicast_xmit_packets"));
	c->port_multicast_rcv_packets = cpu_to_be64(PMA("multicast_rcv_packets"));
}

/* A performance datagram is 64 bytes of headers, then the attribute. */
#define PMA_DATA 64

bool hca_pma_get(struct hca *hca, const char *prefix, struct ib_mad *mad)
{
	void *data = (u8 *)mad + PMA_DATA;

	switch (mad->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO: {
		struct ib_class_port_info *info = data;

		memset(info, 0, sizeof(*info));
		info->base_version = 1;
		info->class_version = 1;
		info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
		return true;
	}
	case IB_PMA_PORT_COUNTERS:
		port_counters(hca, prefix, data);
		return true;
	case IB_PMA_PORT_COUNTERS_EXT:
		port_counters_ext(hca, prefix, data);
		return true;
	}
	return false;
}
