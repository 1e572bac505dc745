// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* /proc/fakehca: one command a line, "DEVICE VERB ARGUMENTS"; reading it prints every counter. README.md lists them. */
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "hca.h"

static LIST_HEAD(hcas);
static DEFINE_MUTEX(hcas_lock);
static struct proc_dir_entry *file;

static int command_counter(struct hca *hca, const char *verb, const char *name, const char *number)
{
	int counter = hca_find(name);
	u64 now;
	s64 value;

	if (counter < 0)
		return -ENOENT;
	if (!strcmp(verb, "saturate")) {
		hca_set(hca, counter, hca_top(counter), 0);
		return 0;
	}
	if (kstrtos64(number, 0, &value))
		return -EINVAL;
	now = hca_read(hca, counter);
	if (!strcmp(verb, "set"))
		hca_set(hca, counter, value, 0);
	else if (!strcmp(verb, "add"))
		hca_add(hca, counter, value);
	else if (!strcmp(verb, "rate"))
		hca_set(hca, counter, now, value);
	else
		return -EINVAL;
	return 0;
}

static int command_gate(struct hca *hca, const char *verb, const char *where, const char *number)
{
	enum hca_gate gate;
	unsigned int value;

	if (!strcmp(where, "rdma"))
		gate = GATE_RDMA;
	else if (!strcmp(where, "ethtool"))
		gate = GATE_ETHTOOL;
	else
		return -EINVAL;
	if (kstrtouint(number, 0, &value) || value > 4095)
		return -EINVAL;
	if (!strcmp(verb, "fail")) {
		WRITE_ONCE(hca->fail[gate], value);
		return 0;
	}
	WRITE_ONCE(hca->hang_until[gate], value ? jiffies + value * HZ : 0);
	wake_up_all(&hca->hang);
	return 0;
}

static int command_state(struct hca *hca, const char *state)
{
	static const char * const names[] = { [IB_PORT_DOWN] = "down", [IB_PORT_INIT] = "init",
					      [IB_PORT_ARMED] = "armed", [IB_PORT_ACTIVE] = "active" };
	int i = match_string(names + 1, ARRAY_SIZE(names) - 1, state);

	if (i < 0)
		return -EINVAL;
	hca_set_state(hca, i + 1);
	return 0;
}

/* Settings that other calls read under the RTNL lock. */
static int command_setting(struct hca *hca, const char *verb, const char *number)
{
	unsigned int value;
	int error = 0;

	if (kstrtouint(number, 0, &value))
		return -EINVAL;
	rtnl_lock();
	if (!strcmp(verb, "pfc") && value < 256) {
		hca->pfc = value;
		hca->global_pause = hca->global_pause && !value;
	} else if (!strcmp(verb, "width") && (value == 1 || value == 2 || value == 4)) {
		hca->width = value;
	} else if (!strcmp(verb, "reason")) {
		hca->down_reason = value;
	} else {
		error = -EINVAL;
	}
	rtnl_unlock();
	return error;
}

static int command(char *line)
{
	char *word[4] = { "", "", "", "" }, *part;
	struct hca *hca, *found = NULL;
	int n = 0;

	while (n < 4 && (part = strsep(&line, " \t")))
		if (*part)
			word[n++] = part;
	if (!n)
		return 0;
	list_for_each_entry(hca, &hcas, list)
		if (!strcmp(dev_name(&hca->ib.dev), word[0]))
			found = hca;
	if (!found)
		return -ENODEV;
	if (!strcmp(word[1], "state"))
		return command_state(found, word[2]);
	if (!strcmp(word[1], "fail") || !strcmp(word[1], "hang"))
		return command_gate(found, word[1], word[2], word[3]);
	if (!strcmp(word[1], "pfc") || !strcmp(word[1], "width") || !strcmp(word[1], "reason"))
		return command_setting(found, word[1], word[2]);
	return command_counter(found, word[1], word[2], word[3]);
}

static ssize_t control_write(struct file *from, const char __user *user, size_t length, loff_t *at)
{
	char *text, *rest, *line;
	int error = 0;

	if (length > PAGE_SIZE)
		return -E2BIG;
	text = memdup_user_nul(user, length);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	mutex_lock(&hcas_lock);
	while (!error && (line = strsep(&rest, "\n")))
		error = command(line);
	mutex_unlock(&hcas_lock);
	kfree(text);
	return error ? error : length;
}

static int control_show(struct seq_file *to, void *unused)
{
	struct hca *hca;
	int i;

	mutex_lock(&hcas_lock);
	list_for_each_entry(hca, &hcas, list)
		for (i = 0; i < hca_ncounters; i++)
			seq_printf(to, "%s %s %llu\n", dev_name(&hca->ib.dev), hca_counters[i].name, hca_read(hca, i));
	mutex_unlock(&hcas_lock);
	return 0;
}

static int control_open(struct inode *inode, struct file *opened)
{
	return single_open_size(opened, control_show, NULL, 64 << 10);
}

static const struct proc_ops ops = {
	.proc_open = control_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = control_write,
};

void hca_control_add(struct hca *hca)
{
	mutex_lock(&hcas_lock);
	list_add_tail(&hca->list, &hcas);
	mutex_unlock(&hcas_lock);
}

void hca_control_remove(struct hca *hca)
{
	int gate;

	mutex_lock(&hcas_lock);
	list_del(&hca->list);
	mutex_unlock(&hcas_lock);
	for (gate = 0; gate < GATES; gate++)
		WRITE_ONCE(hca->hang_until[gate], 0);
	wake_up_all(&hca->hang);
}

int __init hca_control_init(void)
{
	file = proc_create("fakehca", 0600, NULL, &ops);
	return file ? 0 : -ENOMEM;
}

void hca_control_exit(void)
{
	proc_remove(file);
}
