// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* A switch of four ports, made up: adapter N is at port N + 1. It answers Gets, and forwards by a fixed table. */
#include "hca.h"

static const struct hca_node node = {
	.type = 2,
	.ports = SWITCH_PORTS,
	.device = 0xd2f0,	/* Quantum */
	.guid = cpu_to_be64(0xb8cef60300001000ULL),
	.description = "MF0;fakeleaf:MQM8700/U1",
};

/* The highest LID of the forwarding table, and the port to each LID of its block; 255: no port. */
static bool forwarding(const struct hca_cable *cables, struct ib_smp *smp)
{
	unsigned int port, lid, block = be32_to_cpu(smp->attr_mod);

	memset(smp->data, 0xff, sizeof(smp->data));
	if (block == SWITCH_LID / 64)
		smp->data[SWITCH_LID % 64] = 0;
	for (port = 1; port <= SWITCH_PORTS; port++) {
		lid = cables[port].hca ? hca_lid(cables[port].hca) : 0;
		if (lid && lid / 64 == block)
			smp->data[lid % 64] = port;
	}
	return true;
}

static bool subnet(const struct hca_cable *cables, unsigned int in_port, struct ib_smp *smp)
{
	unsigned int number = be32_to_cpu(smp->attr_mod);
	struct hca_port port = { .number = number, .state = IB_PORT_DOWN, .lid = SWITCH_LID, .lanes = 4 };
	struct hca *hca = number && number <= SWITCH_PORTS ? cables[number].hca : NULL;

	switch (smp->attr_id) {
	case IB_SMP_ATTR_LINEAR_FORWARD_TABLE:
		return forwarding(cables, smp);
	case IB_SMP_ATTR_SWITCH_INFO:
		memset(smp->data, 0, sizeof(smp->data));
		smp->data[1] = 0x80;	/* LinearFDBCap: 128 LIDs */
		smp->data[7] = SWITCH_LID;	/* LinearFDBTop */
		return true;
	case IB_SMP_ATTR_PORT_INFO:
		if (number > SWITCH_PORTS)
			return false;
		if (!number)
			port.state = IB_PORT_ACTIVE;	/* the switch itself */
		else if (hca)
			port = (struct hca_port){ number, hca->state, hca->width, 0 };
		else
			port.lid = 0;
	}
	return hca_sma_get(&node, &port, smp, in_port);
}

/* Offset of PortSelect in a performance datagram. */
#define PORT_SELECT 65

static bool performance(const struct hca_cable *cables, struct ib_mad *mad)
{
	u8 port = ((u8 *)mad)[PORT_SELECT];

	if (port > SWITCH_PORTS)
		return false;
	return hca_pma_get(cables[port].hca, "peer_", mad);
}

/* Turns a request at a port into the answer; false if the switch gives none. */
bool hca_switch_answer(const struct hca_cable *cables, unsigned int port, struct ib_mad *mad)
{
	bool supported;

	if (mad->mad_hdr.method != IB_MGMT_METHOD_GET)
		return false;
	switch (mad->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		supported = subnet(cables, port, (struct ib_smp *)mad);
		break;
	case IB_MGMT_CLASS_PERF_MGMT:
		supported = performance(cables, mad);
		break;
	default:
		return false;
	}
	hca_answered(mad, supported);
	return true;
}
