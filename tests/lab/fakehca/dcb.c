// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Data centre bridging: PFC and ETS, readable and settable, DSCP table and receive buffers. */
#include <net/dcbnl.h>
#include "hca.h"

/* requests = sent, indications = received. */
static int get_pfc(struct net_device *netdev, struct ieee_pfc *pfc)
{
	struct hca *hca = hca_of(netdev);
	int prio;

	pfc->pfc_cap = 8;
	pfc->pfc_en = hca->pfc;
	for (prio = 0; prio < 8; prio++) {
		pfc->requests[prio] = hca_read(hca, hca_find_prio("tx_prio%d_pause", prio));
		pfc->indications[prio] = hca_read(hca, hca_find_prio("rx_prio%d_pause", prio));
	}
	return 0;
}

static int set_pfc(struct net_device *netdev, struct ieee_pfc *pfc)
{
	struct hca *hca = hca_of(netdev);

	hca->pfc = pfc->pfc_en;
	if (hca->pfc)
		hca->global_pause = false;
	return 0;
}

static int get_ets(struct net_device *netdev, struct ieee_ets *ets)
{
	*ets = hca_of(netdev)->ets;
	return 0;
}

static int set_ets(struct net_device *netdev, struct ieee_ets *ets)
{
	struct ieee_ets *mine = &hca_of(netdev)->ets;
	u8 classes = mine->ets_cap;

	*mine = *ets;
	mine->ets_cap = classes;
	return 0;
}

static int get_buffer(struct net_device *netdev, struct dcbnl_buffer *buffer)
{
	memset(buffer, 0, sizeof(*buffer));
	buffer->prio2buffer[3] = 1;
	buffer->buffer_size[0] = 20016;
	buffer->buffer_size[1] = 243072;
	buffer->total_size = 263088;
	return 0;
}

static u8 get_dcbx(struct net_device *netdev)
{
	return DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
}

static u8 set_dcbx(struct net_device *netdev, u8 mode)
{
	return mode != get_dcbx(netdev);
}

const struct dcbnl_rtnl_ops hca_dcb_ops = {
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.dcbnl_getbuffer = get_buffer,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
};

/* A usual RoCE set-up: PFC on priority 3, DSCP 26 mapped to it, half of the bandwidth each. */
void hca_dcb_defaults(struct hca *hca)
{
	int prio;

	hca->pfc = BIT(3);
	hca->ets.ets_cap = 8;
	for (prio = 0; prio < 8; prio++) {
		hca->ets.prio_tc[prio] = prio == 3 ? 1 : 0;
		hca->ets.tc_tsa[prio] = IEEE_8021QAZ_TSA_STRICT;
	}
	hca->ets.tc_tsa[0] = hca->ets.tc_tsa[1] = IEEE_8021QAZ_TSA_ETS;
	hca->ets.tc_tx_bw[0] = hca->ets.tc_tx_bw[1] = 50;
}
