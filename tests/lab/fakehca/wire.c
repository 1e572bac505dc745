// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Cables: every adapter's port leads to a port of one switch, and datagrams go through it one after the other. */
#include <linux/slab.h>
#include "hca.h"

/* The adapters at the ports of the switch, from 1. The lock also guards their queue pairs. */
static struct hca_cable cables[SWITCH_PORTS + 1];
static DEFINE_MUTEX(cables_lock);
static struct workqueue_struct *queue;

struct packet {
	struct work_struct work;
	struct ib_wc wc;	/* as the receiver sees it */
	u32 to_qp;
	u16 dlid;
	u8 port;		/* of the switch, where it comes in */
	union {
		struct ib_mad mad;
		struct ib_smp smp;
	};
};

static void receive(struct hca_qp *qp, struct packet *packet)
{
	struct hca_recv recv;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->used) {
		spin_unlock_irqrestore(&qp->lock, flags);
		return;
	}
	recv = qp->recvs[qp->head];
	qp->head = (qp->head + 1) % qp->size;
	qp->used--;
	spin_unlock_irqrestore(&qp->lock, flags);
	/* Room for a global route header, which only routers between subnets need; addresses are virtual. */
	packet->wc.byte_len = sizeof(struct ib_grh) + sizeof(packet->mad);
	memset((void *)(uintptr_t)recv.sge.addr, 0, sizeof(struct ib_grh));
	memcpy((void *)(uintptr_t)recv.sge.addr + sizeof(struct ib_grh), &packet->mad, sizeof(packet->mad));
	packet->wc.wr_cqe = recv.cqe;
	packet->wc.qp = &qp->ib;
	packet->wc.opcode = IB_WC_RECV;
	packet->wc.port_num = 1;
	hca_complete(qp->ib.recv_cq, &packet->wc);
}

/* Out of a port of the switch, to the adapter there. */
static void deliver(unsigned int port, struct packet *packet)
{
	struct hca_qp *qp = port && port <= SWITCH_PORTS ? cables[port].qps[packet->to_qp] : NULL;

	if (qp && qp->state == IB_QPS_RTS && cables[port].hca->state != IB_PORT_DOWN)
		receive(qp, packet);
}

/* Back to where the request came from, with the switch's answer if it has one. */
static void answer(struct packet *packet)
{
	if (!hca_switch_answer(cables, packet->port, &packet->mad))
		return;
	packet->wc.slid = SWITCH_LID;
	packet->wc.src_qp = packet->to_qp;
	deliver(packet->port, packet);
}

/* Directed routes, specification 14.2.2: the sender has set the hop pointer to the switch's place in the path. */
static void direct(struct packet *packet)
{
	struct ib_smp *smp = &packet->smp;

	if (ib_get_smp_direction(smp)) {
		if (smp->hop_ptr >= 2 && smp->hop_ptr <= smp->hop_cnt && smp->hop_ptr < IB_SMP_MAX_PATH_HOPS)
			deliver(smp->return_path[--smp->hop_ptr], packet);
		return;
	}
	if (!smp->hop_ptr || smp->hop_ptr > smp->hop_cnt || smp->hop_ptr >= IB_SMP_MAX_PATH_HOPS - 1)
		return;
	smp->return_path[smp->hop_ptr] = packet->port;
	if (smp->hop_ptr == smp->hop_cnt)
		answer(packet);
	else
		deliver(smp->initial_path[++smp->hop_ptr], packet);
}

static void carry(struct work_struct *work)
{
	struct packet *packet = container_of(work, struct packet, work);
	struct hca *from;
	int port;

	mutex_lock(&cables_lock);
	from = cables[packet->port].hca;
	if (!from || from->state == IB_PORT_DOWN) {
		/* The cable is out. */
	} else if (packet->mad.mad_hdr.mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE) {
		direct(packet);
	} else if (packet->dlid == SWITCH_LID) {
		answer(packet);
	} else {
		for (port = 1; port <= SWITCH_PORTS; port++)
			if (cables[port].hca && hca_lid(cables[port].hca) == packet->dlid)
				deliver(port, packet);
	}
	mutex_unlock(&cables_lock);
	kfree(packet);
}

static int send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	struct hca *hca = container_of(qp->device, struct hca, ib);
	const struct ib_ud_wr *ud = ud_wr(wr);
	struct packet *packet;
	size_t length = 0;
	int i;

	if (wr->opcode != IB_WR_SEND || ud->remote_qpn > 1 || hca->index >= SWITCH_PORTS)
		return -EINVAL;
	/* The caller holds a spin lock. */
	packet = kzalloc(sizeof(*packet), GFP_ATOMIC);
	if (!packet)
		return -ENOMEM;
	for (i = 0; i < wr->num_sge; i++) {
		u32 part = min_t(u32, wr->sg_list[i].length, sizeof(packet->mad) - length);

		memcpy((u8 *)&packet->mad + length, (void *)(uintptr_t)wr->sg_list[i].addr, part);
		length += part;
	}
	packet->wc.slid = hca_lid(hca);
	packet->wc.src_qp = qp->qp_num;
	packet->to_qp = ud->remote_qpn;
	packet->dlid = hca_ah_lid(ud->ah);
	packet->port = hca->index + 1;
	INIT_WORK(&packet->work, carry);
	queue_work(queue, &packet->work);
	hca_complete(qp->send_cq, &(struct ib_wc){ .wr_cqe = wr->wr_cqe, .qp = qp, .opcode = IB_WC_SEND });
	return 0;
}

int hca_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		int error = send(qp, wr);

		if (error) {
			*bad = wr;
			return error;
		}
	}
	return 0;
}

/* Makes a queue pair reachable, or with NULL unreachable. */
void hca_wire_plug(struct hca *hca, u32 number, struct hca_qp *qp)
{
	struct hca_cable *cable = &cables[hca->index + 1];

	if (hca->index >= SWITCH_PORTS)
		return;
	mutex_lock(&cables_lock);
	cable->qps[number] = qp;
	cable->hca = cable->qps[0] || cable->qps[1] ? hca : NULL;
	mutex_unlock(&cables_lock);
}

int __init hca_wire_init(void)
{
	queue = alloc_ordered_workqueue("fakehca", 0);
	return queue ? 0 : -ENOMEM;
}

void hca_wire_exit(void)
{
	destroy_workqueue(queue);
}
