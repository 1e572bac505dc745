/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* One fake host channel adapter: what its parts share. README.md says what the module is for. */
#ifndef FAKEHCA_H
#define FAKEHCA_H

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_verbs.h>

/* Where a counter is visible. */
enum hca_group {
	HCA_PMA,	/* sysfs counters/, through process_mad */
	HCA_PEER,	/* the switch port at the other end of the cable, by management datagrams */
	HCA_HW,		/* sysfs hw_counters/ and RDMA netlink */
	HCA_ETH,	/* ethtool -S, always */
	HCA_PFC,	/* ethtool -S while PFC is on for its priority */
	HCA_PAUSE,	/* ethtool -S while global pause is on */
	HCA_STD,	/* standard ethtool statistics and the module's diagnostics only */
};

#define HCA_NAME 40

struct hca_counter {
	char name[HCA_NAME];
	enum hca_group group;
	u8 bits;		/* width in hardware */
	bool saturates;		/* sticks at the top instead of wrapping */
	bool optional;		/* RDMA netlink gives it only once it is switched on */
	u8 prio;
};

#define HCA_COUNTERS 320

struct hca_value {
	u64 base;
	s64 rate;	/* per second */
	u64 since;	/* ktime ns of base */
};

/* A buffer that waits for a datagram. */
struct hca_recv {
	struct ib_cqe *cqe;
	struct ib_sge sge;
};

/* Queue pair 0 (subnet management) or 1 (general services). */
struct hca_qp {
	struct ib_qp ib;
	enum ib_qp_state state;
	spinlock_t lock;
	struct hca_recv *recvs;	/* ring */
	u32 size, head, used;
};

/* A node as its management agent describes it. */
struct hca_node {
	u8 type;		/* 1 adapter, 2 switch */
	u8 ports;
	u16 device;
	__be64 guid;
	const char *description;
};

/* A port of a node as its management agent describes it. */
struct hca_port {
	u8 number;
	u8 state;		/* enum ib_port_state */
	u8 lanes;
	u16 lid;
};

/* Calls that can be made to fail or to hang. */
enum hca_gate { GATE_RDMA, GATE_ETHTOOL, GATES };

struct hca {
	struct ib_device ib;	/* first: allocated by ib_alloc_device */
	struct net_device *netdev;
	struct pci_dev *pci;
	struct list_head list;
	int index;
	spinlock_t lock;	/* values */
	struct hca_value values[HCA_COUNTERS];
	enum ib_port_state state;
	u8 width;		/* lanes: 1, 2 or 4 */
	u8 pfc;			/* priorities with PFC */
	bool global_pause;
	u32 down_reason;	/* enum ethtool_link_ext_state */
	struct ieee_ets ets;
	int fail[GATES];	/* errno to give, 0 = none */
	unsigned long hang_until[GATES];	/* jiffies, 0 = not hanging */
	wait_queue_head_t hang;
};

extern bool hca_infiniband;

/* table.c */
extern struct hca_counter hca_counters[HCA_COUNTERS];
extern int hca_ncounters;
void hca_table_init(void);
int hca_find(const char *name);
int hca_find_prio(const char *format, int prio);
u64 hca_read(struct hca *hca, int counter);
u64 hca_read_name(struct hca *hca, const char *name);
void hca_set(struct hca *hca, int counter, u64 base, s64 rate);
void hca_add(struct hca *hca, int counter, s64 delta);
u64 hca_top(int counter);
int hca_enter(struct hca *hca, enum hca_gate gate);

/* rdma.c */
int hca_rdma_add(struct hca *hca);
void hca_rdma_init(void);
extern const struct ib_device_ops hca_rdma_ops;
void hca_set_state(struct hca *hca, enum ib_port_state state);

/* cq.c */
extern const struct ib_device_ops hca_cq_ops;
void hca_complete(struct ib_cq *cq, const struct ib_wc *wc);

/* verbs.c */
extern const struct ib_device_ops hca_verbs_ops;
u16 hca_ah_lid(struct ib_ah *ah);

/* wire.c */
int hca_wire_init(void);
void hca_wire_exit(void);
void hca_wire_plug(struct hca *hca, u32 number, struct hca_qp *qp);
int hca_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);

/* switch.c: what the switch of the subnet answers */
#define SWITCH_PORTS 4
#define SWITCH_LID 100
struct hca_cable {
	struct hca *hca;	/* NULL: nothing is plugged in */
	struct hca_qp *qps[2];
};
bool hca_switch_answer(const struct hca_cable *cables, unsigned int port, struct ib_mad *mad);

/* sma.c, pma.c: management agents. False for an attribute that is not supported. */
bool hca_sma_get(const struct hca_node *node, const struct hca_port *port, struct ib_smp *smp, u8 in_port);
bool hca_pma_get(struct hca *hca, const char *prefix, struct ib_mad *mad);
void hca_answered(struct ib_mad *mad, bool supported);
u16 hca_lid(struct hca *hca);

/* netdev.c, ethtool.c, dcb.c */
int hca_netdev_add(struct hca *hca);
struct hca *hca_of(struct net_device *netdev);
extern const struct ethtool_ops hca_ethtool_ops;
extern const struct dcbnl_rtnl_ops hca_dcb_ops;
void hca_dcb_defaults(struct hca *hca);

/* control.c */
int hca_control_init(void);
void hca_control_exit(void);
void hca_control_add(struct hca *hca);
void hca_control_remove(struct hca *hca);

#endif
