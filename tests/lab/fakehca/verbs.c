// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The verbs that the kernel's MAD layer needs: queue pairs 0 and 1, and address handles. */
#include <linux/slab.h>
#include "hca.h"

struct hca_pd {
	struct ib_pd ib;
};

struct hca_ah {
	struct ib_ah ib;
	u16 dlid;
};

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

/* Mandatory for a provider of verbs, and never called: there is a local DMA key, and there are no user verbs. */
static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 address, int access,
				 struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	container_of(ah, struct hca_ah, ib)->dlid = rdma_ah_get_dlid(init->ah_attr);
	return 0;
}

static int query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = ah->type;
	rdma_ah_set_port_num(attr, 1);
	rdma_ah_set_dlid(attr, container_of(ah, struct hca_ah, ib)->dlid);
	return 0;
}

static int destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

static int create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct hca_qp *qp = container_of(ib, struct hca_qp, ib);

	if (udata || (attr->qp_type != IB_QPT_SMI && attr->qp_type != IB_QPT_GSI))
		return -EOPNOTSUPP;
	qp->recvs = kvcalloc(attr->cap.max_recv_wr, sizeof(*qp->recvs), GFP_KERNEL);
	if (!qp->recvs)
		return -ENOMEM;
	qp->size = attr->cap.max_recv_wr;
	spin_lock_init(&qp->lock);
	ib->qp_num = attr->qp_type == IB_QPT_GSI;
	hca_wire_plug(container_of(ib->device, struct hca, ib), ib->qp_num, qp);
	return 0;
}

static int modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	if (mask & IB_QP_STATE)
		container_of(ib, struct hca_qp, ib)->state = attr->qp_state;
	return 0;
}

static int query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	attr->qp_state = container_of(ib, struct hca_qp, ib)->state;
	return 0;
}

static int destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct hca_qp *qp = container_of(ib, struct hca_qp, ib);

	hca_wire_plug(container_of(ib->device, struct hca, ib), ib->qp_num, NULL);
	kvfree(qp->recvs);
	return 0;
}

static int post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct hca_qp *qp = container_of(ib, struct hca_qp, ib);
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr && !error; wr = error ? wr : wr->next) {
		if (qp->used == qp->size || wr->num_sge != 1)
			error = -EINVAL;
		else
			qp->recvs[(qp->head + qp->used++) % qp->size] =
				(struct hca_recv){ .cqe = wr->wr_cqe, .sge = wr->sg_list[0] };
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (error)
		*bad = wr;
	return error;
}

u16 hca_ah_lid(struct ib_ah *ah)
{
	return container_of(ah, struct hca_ah, ib)->dlid;
}

const struct ib_device_ops hca_verbs_ops = {
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.get_dma_mr = get_dma_mr,
	.reg_user_mr = reg_user_mr,
	.dereg_mr = dereg_mr,
	.create_ah = create_ah,
	.query_ah = query_ah,
	.destroy_ah = destroy_ah,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.query_qp = query_qp,
	.destroy_qp = destroy_qp,
	.post_recv = post_recv,
	.post_send = hca_post_send,
	INIT_RDMA_OBJ_SIZE(ib_pd, hca_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ah, hca_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, hca_qp, ib),
};
