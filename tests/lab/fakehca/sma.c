// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Subnet management agent of a node, adapter or switch: NodeDescription, NodeInfo, PortInfo. */
#include "hca.h"

#define MELLANOX 0x2c9
/* LinkSpeedExtActive, in the upper half of byte 62 of PortInfo: HDR. */
#define SPEED_EXT 62
#define SPEED_HDR 4

static void node_info(const struct hca_node *node, u8 in_port, void *to)
{
	struct ib_node_info *info = to;

	info->base_version = 1;
	info->class_version = 1;
	info->node_type = node->type;
	info->num_ports = node->ports;
	info->sys_guid = node->guid;
	info->node_guid = node->guid;
	info->port_guid = node->guid;
	info->partition_cap = cpu_to_be16(1);
	info->device_id = cpu_to_be16(node->device);
	info->local_port_num = in_port;
	info->vendor_id[1] = MELLANOX >> 8;
	info->vendor_id[2] = MELLANOX & 0xff;
}

static void port_info(const struct hca_port *port, u8 in_port, u8 *data)
{
	struct ib_port_info *info = (void *)data;
	bool up = port->state != IB_PORT_DOWN;

	info->gid_prefix = cpu_to_be64(0xfe80000000000000ULL);
	info->lid = cpu_to_be16(port->lid);
	info->sm_lid = cpu_to_be16(1);
	info->local_port_num = in_port;
	info->link_width_active = port->lanes == 4 ? IB_WIDTH_4X : port->lanes == 2 ? IB_WIDTH_2X : IB_WIDTH_1X;
	info->linkspeed_portstate = port->state;
	info->portphysstate_linkdown = (up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING) << 4;
	info->linkspeedactive_enabled = IB_SPEED_QDR << 4;
	info->neighbormtu_mastersmsl = IB_MTU_4096 << 4;
	info->operationalvl_pei_peo_fpi_fpo = 3 << 4;	/* four lanes */
	data[SPEED_EXT] = SPEED_HDR << 4;
}

bool hca_sma_get(const struct hca_node *node, const struct hca_port *port, struct ib_smp *smp, u8 in_port)
{
	memset(smp->data, 0, sizeof(smp->data));
	switch (smp->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memcpy(smp->data, node->description, strnlen(node->description, sizeof(smp->data)));
		return true;
	case IB_SMP_ATTR_NODE_INFO:
		node_info(node, in_port, smp->data);
		return true;
	case IB_SMP_ATTR_PORT_INFO:
		port_info(port, in_port, smp->data);
		return true;
	}
	return false;
}

/* Turns a request into its answer's header. */
void hca_answered(struct ib_mad *mad, bool supported)
{
	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	mad->mad_hdr.status = supported ? 0 : cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	if (mad->mad_hdr.mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		mad->mad_hdr.status |= IB_SMP_DIRECTION;
}
