// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The one table of counters: name, where it shows, width, what happens at the top. All else is derived from it. */
#include <linux/math64.h>
#include "hca.h"

#define PMA(n, b) { .name = n, .group = HCA_PMA, .bits = b, .saturates = true }
#define PMA64(n) { .name = n, .group = HCA_PMA, .bits = 64 }
#define HW32(n) { .name = n, .group = HCA_HW, .bits = 32 }
#define HW64(n) { .name = n, .group = HCA_HW, .bits = 64 }
#define OPT(n) { .name = n, .group = HCA_HW, .bits = 64, .optional = true }
#define ETH(n) { .name = n, .group = HCA_ETH, .bits = 64 }
#define PAUSE(n) { .name = n, .group = HCA_PAUSE, .bits = 64 }
#define STD(n) { .name = n, .group = HCA_STD, .bits = 64 }

static const struct hca_counter fixed[] __initconst = {
	PMA("symbol_error", 16), PMA("link_error_recovery", 8), PMA("link_downed", 8), PMA("port_rcv_errors", 16),
	PMA("port_rcv_remote_physical_errors", 16), PMA("port_rcv_switch_relay_errors", 16), PMA("port_xmit_discards", 16),
	PMA("port_xmit_constraint_errors", 8), PMA("port_rcv_constraint_errors", 8), PMA("local_link_integrity_errors", 4),
	PMA("excessive_buffer_overrun_errors", 4), PMA("VL15_dropped", 16), PMA("port_xmit_wait", 32),
	PMA64("port_xmit_data"), PMA64("port_rcv_data"), PMA64("port_xmit_packets"), PMA64("port_rcv_packets"),
	PMA64("unicast_xmit_packets"), PMA64("unicast_rcv_packets"), PMA64("multicast_xmit_packets"),
	PMA64("multicast_rcv_packets"),

	HW32("rx_write_requests"), HW32("rx_read_requests"), HW32("rx_atomic_requests"), HW32("rx_dct_connect"),
	HW32("out_of_buffer"), HW32("out_of_sequence"), HW32("duplicate_request"), HW32("rnr_nak_retry_err"),
	HW32("packet_seq_err"), HW32("implied_nak_seq_err"), HW32("local_ack_timeout_err"), HW32("resp_local_length_error"),
	HW32("resp_cqe_error"), HW32("req_cqe_error"), HW32("req_remote_invalid_request"), HW32("req_remote_access_errors"),
	HW32("resp_remote_access_errors"), HW32("resp_cqe_flush_error"), HW32("req_cqe_flush_error"),
	HW32("roce_adp_retrans"), HW32("roce_adp_retrans_to"), HW32("roce_slow_restart"), HW32("roce_slow_restart_cnps"),
	HW32("roce_slow_restart_trans"), HW64("rp_cnp_ignored"), HW64("rp_cnp_handled"),
	HW64("np_ecn_marked_roce_packets"), HW64("np_cnp_sent"), HW64("rx_icrc_encapsulated"),
	OPT("cc_rx_ce_pkts"), OPT("cc_rx_cnp_pkts"), OPT("cc_tx_cnp_pkts"),

	ETH("rx_packets"), ETH("rx_bytes"), ETH("tx_packets"), ETH("tx_bytes"),
	ETH("rx_vport_rdma_unicast_packets"), ETH("rx_vport_rdma_unicast_bytes"), ETH("tx_vport_rdma_unicast_packets"),
	ETH("tx_vport_rdma_unicast_bytes"), ETH("rx_out_of_buffer"), ETH("rx_packets_phy"), ETH("tx_packets_phy"),
	ETH("rx_bytes_phy"), ETH("tx_bytes_phy"), ETH("rx_crc_errors_phy"), ETH("rx_symbol_err_phy"),
	ETH("rx_pcs_symbol_err_phy"), ETH("rx_corrected_bits_phy"), ETH("rx_discards_phy"), ETH("tx_discards_phy"),
	ETH("link_down_events_phy"), ETH("rx_pause_ctrl_phy"), ETH("tx_pause_ctrl_phy"),
	ETH("tx_pause_storm_warning_events"), ETH("tx_pause_storm_error_events"), ETH("module_bad_shorted"),
	ETH("outbound_pci_stalled_wr"), ETH("outbound_pci_stalled_wr_events"), ETH("rx_buffer_passed_thres_phy"),

	PAUSE("rx_global_pause"), PAUSE("rx_global_pause_duration"), PAUSE("rx_global_pause_transition"),
	PAUSE("tx_global_pause"), PAUSE("tx_global_pause_duration"),

	STD("fec_corrected_blocks"), STD("fec_uncorrectable_blocks"), STD("fec_corrected_bits"),
	STD("phy_symbol_errors"), STD("mac_frames_tx"), STD("mac_frames_rx"), STD("mac_fcs_errors"), STD("mac_octets_tx"),
	STD("mac_octets_rx"), STD("ctrl_frames_tx"), STD("ctrl_frames_rx"), STD("rmon_oversize"),
	STD("module_millicelsius"), STD("module_rx_microwatt"), STD("module_tx_microwatt"),
};

/* Once per priority, in the order that the driver prints them. */
static const struct { const char *format; enum hca_group group; } per_prio[] __initconst = {
	{ "rx_prio%d_bytes", HCA_ETH }, { "rx_prio%d_packets", HCA_ETH }, { "rx_prio%d_discards", HCA_ETH },
	{ "tx_prio%d_bytes", HCA_ETH }, { "tx_prio%d_packets", HCA_ETH },
	{ "rx_prio%d_buf_discard", HCA_ETH }, { "rx_prio%d_cong_discard", HCA_ETH }, { "rx_prio%d_marked", HCA_ETH },
	{ "rx_prio%d_pause", HCA_PFC }, { "rx_prio%d_pause_duration", HCA_PFC },
	{ "tx_prio%d_pause", HCA_PFC }, { "tx_prio%d_pause_duration", HCA_PFC }, { "rx_prio%d_pause_transition", HCA_PFC },
};

struct hca_counter hca_counters[HCA_COUNTERS];
int hca_ncounters;

void __init hca_table_init(void)
{
	int prio, i;

	BUILD_BUG_ON(2 * ARRAY_SIZE(fixed) + 8 * ARRAY_SIZE(per_prio) > HCA_COUNTERS);
	for (i = 0; i < ARRAY_SIZE(fixed); i++)
		hca_counters[hca_ncounters++] = fixed[i];
	for (i = 0; i < ARRAY_SIZE(fixed) && fixed[i].group == HCA_PMA; i++) {
		struct hca_counter *counter = &hca_counters[hca_ncounters++];

		*counter = fixed[i];
		counter->group = HCA_PEER;
		snprintf(counter->name, sizeof(counter->name), "peer_%s", fixed[i].name);
	}
	for (prio = 0; prio < 8; prio++) {
		for (i = 0; i < ARRAY_SIZE(per_prio); i++) {
			struct hca_counter *counter = &hca_counters[hca_ncounters++];

			snprintf(counter->name, sizeof(counter->name), per_prio[i].format, prio);
			counter->group = per_prio[i].group;
			counter->bits = 64;
			counter->prio = prio;
		}
	}
}

int hca_find(const char *name)
{
	int i;

	for (i = 0; i < hca_ncounters; i++)
		if (!strcmp(hca_counters[i].name, name))
			return i;
	return -ENOENT;
}

int hca_find_prio(const char *format, int prio)
{
	char name[HCA_NAME];

	snprintf(name, sizeof(name), format, prio);
	return hca_find(name);
}

u64 hca_top(int counter)
{
	u8 bits = hca_counters[counter].bits;

	return bits >= 64 ? U64_MAX : (1ULL << bits) - 1;
}

static u64 grown(const struct hca_value *value, u64 now)
{
	if (value->rate < 0)
		return value->base - mul_u64_u64_div_u64(-value->rate, now - value->since, NSEC_PER_SEC);
	return value->base + mul_u64_u64_div_u64(value->rate, now - value->since, NSEC_PER_SEC);
}

u64 hca_read(struct hca *hca, int counter)
{
	u64 top, raw;

	if (counter < 0)
		return 0;
	top = hca_top(counter);
	spin_lock_bh(&hca->lock);
	raw = grown(&hca->values[counter], ktime_get_ns());
	spin_unlock_bh(&hca->lock);
	return hca_counters[counter].saturates ? min(raw, top) : raw & top;
}

u64 hca_read_name(struct hca *hca, const char *name)
{
	return hca_read(hca, hca_find(name));
}

void hca_set(struct hca *hca, int counter, u64 base, s64 rate)
{
	spin_lock_bh(&hca->lock);
	hca->values[counter] = (struct hca_value){ .base = base, .rate = rate, .since = ktime_get_ns() };
	spin_unlock_bh(&hca->lock);
}

void hca_add(struct hca *hca, int counter, s64 delta)
{
	spin_lock_bh(&hca->lock);
	hca->values[counter].base += delta;
	spin_unlock_bh(&hca->lock);
}

/* Every call that an agent can make passes here first: it may have been told to hang or to fail. */
int hca_enter(struct hca *hca, enum hca_gate gate)
{
	unsigned long until = READ_ONCE(hca->hang_until[gate]);

	/* Uninterruptible, as a firmware command is; the control file or the module's end releases it. */
	if (until)
		wait_event_timeout(hca->hang, !READ_ONCE(hca->hang_until[gate]),
				   time_before(jiffies, until) ? until - jiffies : 0);
	return -READ_ONCE(hca->fail[gate]);
}
