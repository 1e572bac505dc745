// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The RDMA device: port attributes, management agents, hw_counters/, port state. */
#include "hca.h"

#define MAX_HW 64

static struct rdma_stat_desc hw_stats[MAX_HW];
static int hw_counter[MAX_HW];
static int hw_count;

static struct hca *of(struct ib_device *ib)
{
	return container_of(ib, struct hca, ib);
}

void __init hca_rdma_init(void)
{
	int i;

	for (i = 0; i < hca_ncounters && hw_count < MAX_HW; i++) {
		if (hca_counters[i].group != HCA_HW)
			continue;
		hw_stats[hw_count].name = hca_counters[i].name;
		hw_stats[hw_count].flags = hca_counters[i].optional ? IB_STAT_FLAG_OPTIONAL : 0;
		hw_counter[hw_count++] = i;
	}
}

static struct rdma_hw_stats *alloc_stats(struct ib_device *ib, u32 port)
{
	struct rdma_hw_stats *stats = rdma_alloc_hw_stats_struct(hw_stats, hw_count, RDMA_HW_STATS_DEFAULT_LIFESPAN);
	int i;

	for (i = 0; stats && i < hw_count; i++)
		if (hw_stats[i].flags & IB_STAT_FLAG_OPTIONAL)
			set_bit(i, stats->is_disabled);
	return stats;
}

static int get_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct hca *hca = of(ib);
	int i, error = hca_enter(hca, GATE_RDMA);

	if (error)
		return error;
	for (i = 0; i < hw_count; i++)
		stats->value[i] = hca_read(hca, hw_counter[i]);
	return hw_count;
}

/* The core keeps track of which optional counters are on; the hardware part is nothing here. */
static int modify_stat(struct ib_device *ib, u32 port, unsigned int counter, bool on)
{
	return 0;
}

static int process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		       const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *pkey)
{
	struct hca *hca = of(ib);
	struct hca_node node = { 1, 1, 4125, ib->node_guid, ib->node_desc };
	struct hca_port state = { 1, hca->state, hca->width, hca_lid(hca) };
	bool supported;

	/* Answers to the host's own requests come by here too, and are not for the adapter. */
	if (in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_SUCCESS;
	if (hca_enter(hca, GATE_RDMA))
		return IB_MAD_RESULT_FAILURE;
	memcpy(out, in, sizeof(*in));
	switch (in->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_PERF_MGMT:
		supported = hca_pma_get(hca, "", out);
		break;
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		supported = hca_sma_get(&node, &state, (struct ib_smp *)out, port);
		break;
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
	hca_answered(out, supported);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

u16 hca_lid(struct hca *hca)
{
	return hca_infiniband ? hca->index + 1 : 0;
}

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->vendor_id = 0x2c9;
	attr->vendor_part_id = 4125;
	attr->fw_ver = 22ULL << 32 | 36 << 16 | 1010;
	attr->sys_image_guid = ib->node_guid;
	attr->max_qp = 131072;
	attr->max_pkeys = 1;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	return 0;
}

static void firmware(struct ib_device *ib, char *text)
{
	snprintf(text, IB_FW_VERSION_NAME_MAX, "22.36.1010");
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct hca *hca = of(ib);
	bool down = hca->state == IB_PORT_DOWN;

	attr->state = hca->state;
	attr->phys_state = down ? IB_PORT_PHYS_STATE_DISABLED : IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->active_width = hca->width == 4 ? IB_WIDTH_4X : hca->width == 2 ? IB_WIDTH_2X : IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_HDR;
	attr->gid_tbl_len = hca_infiniband ? 1 : 16;
	attr->pkey_tbl_len = 1;
	attr->lid = hca_lid(hca);
	attr->sm_lid = hca_infiniband ? 1 : 0;
	attr->max_msg_sz = 1 << 30;
	return 0;
}

static int immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *port_data)
{
	struct ib_port_attr attr = {};

	query_port(ib, port, &attr);
	port_data->core_cap_flags = hca_infiniband ? RDMA_CORE_PORT_IBA_IB :
				    RDMA_CORE_PORT_IBA_ROCE | RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	port_data->max_mad_size = IB_MGMT_MAD_SIZE;
	port_data->gid_tbl_len = attr.gid_tbl_len;
	port_data->pkey_tbl_len = attr.pkey_tbl_len;
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ib, u32 port)
{
	return hca_infiniband ? IB_LINK_LAYER_INFINIBAND : IB_LINK_LAYER_ETHERNET;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ib->node_guid;
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static int add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static ssize_t hca_type_show(struct device *dev, struct device_attribute *attr, char *to)
{
	return sysfs_emit(to, "MT4125\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *dev, struct device_attribute *attr, char *to)
{
	return sysfs_emit(to, "MT_0000000359\n");
}
static DEVICE_ATTR_RO(board_id);

static struct attribute *attributes[] = { &dev_attr_hca_type.attr, &dev_attr_board_id.attr, NULL };
static const struct attribute_group attribute_group = { .attrs = attributes };

/* No user verbs. driver_id must not promise mlx5's user ABI. */
const struct ib_device_ops hca_rdma_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.add_gid = add_gid,
	.del_gid = del_gid,
	.get_port_immutable = immutable,
	.get_link_layer = link_layer,
	.get_dev_fw_str = firmware,
	.alloc_hw_port_stats = alloc_stats,
	.get_hw_stats = get_stats,
	.modify_hw_stat = modify_stat,
	.process_mad = process_mad,
	.device_group = &attribute_group,
};

int hca_rdma_add(struct hca *hca)
{
	int error;

	hca->ib.phys_port_cnt = 1;
	hca->ib.node_type = RDMA_NODE_IB_CA;
	hca->ib.num_comp_vectors = 1;
	hca->ib.dev.parent = &hca->pci->dev;
	hca->ib.node_guid = cpu_to_be64(0xb8cef60300000001ULL + hca->index);
	snprintf(hca->ib.node_desc, sizeof(hca->ib.node_desc), "fake mlx5_%d", hca->index);
	ib_set_device_ops(&hca->ib, &hca_rdma_ops);
	if (hca_infiniband) {
		ib_set_device_ops(&hca->ib, &hca_verbs_ops);
		ib_set_device_ops(&hca->ib, &hca_cq_ops);
	} else {
		error = ib_device_set_netdev(&hca->ib, hca->netdev, 1);
		if (error)
			return error;
	}
	return ib_register_device(&hca->ib, "mlx5_%d", NULL);
}

/* As a driver does it: carrier, port state, event, and the two counters that count losing the link. */
void hca_set_state(struct hca *hca, enum ib_port_state state)
{
	struct ib_event event = { .device = &hca->ib, .element.port_num = 1 };
	bool was_up = hca->state == IB_PORT_ACTIVE, up = state == IB_PORT_ACTIVE;

	rtnl_lock();
	hca->state = state;
	if (up && netif_running(hca->netdev))
		netif_carrier_on(hca->netdev);
	else
		netif_carrier_off(hca->netdev);
	rtnl_unlock();
	if (was_up && !up) {
		hca_add(hca, hca_find("link_downed"), 1);
		hca_add(hca, hca_find("link_down_events_phy"), 1);
	}
	event.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
}
