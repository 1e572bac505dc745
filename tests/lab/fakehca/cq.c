// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Completion queues: a ring that the MAD layer polls, from its work queue, once it was woken. */
#include <linux/slab.h>
#include "hca.h"

struct hca_cq {
	struct ib_cq ib;
	spinlock_t lock;
	struct ib_wc *wcs;	/* ring of ib.cqe entries */
	int head, used;
	bool armed;
};

static int create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct hca_cq *cq = container_of(ib, struct hca_cq, ib);

	if (udata)
		return -EOPNOTSUPP;
	cq->wcs = kvcalloc(attr->cqe, sizeof(*cq->wcs), GFP_KERNEL);
	if (!cq->wcs)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	ib->cqe = attr->cqe;
	return 0;
}

static int destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	kvfree(container_of(ib, struct hca_cq, ib)->wcs);
	return 0;
}

static int poll_cq(struct ib_cq *ib, int most, struct ib_wc *to)
{
	struct hca_cq *cq = container_of(ib, struct hca_cq, ib);
	unsigned long flags;
	int n;

	spin_lock_irqsave(&cq->lock, flags);
	for (n = 0; n < most && cq->used; n++, cq->used--) {
		to[n] = cq->wcs[cq->head];
		cq->head = (cq->head + 1) % ib->cqe;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static int req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how)
{
	struct hca_cq *cq = container_of(ib, struct hca_cq, ib);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = (how & IB_CQ_REPORT_MISSED_EVENTS) && cq->used;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

void hca_complete(struct ib_cq *ib, const struct ib_wc *wc)
{
	struct hca_cq *cq = container_of(ib, struct hca_cq, ib);
	unsigned long flags;
	bool wake;

	spin_lock_irqsave(&cq->lock, flags);
	if (!WARN_ON_ONCE(cq->used == ib->cqe))
		cq->wcs[(cq->head + cq->used++) % ib->cqe] = *wc;
	wake = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (wake)
		ib->comp_handler(ib, ib->cq_context);
}

const struct ib_device_ops hca_cq_ops = {
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.poll_cq = poll_cq,
	.req_notify_cq = req_notify_cq,
	INIT_RDMA_OBJ_SIZE(ib_cq, hca_cq, ib),
};
