//! The value that most ports of a group have.

use std::collections::BTreeMap;

use crate::drift::{Reason, Split, SplitValue};
use crate::key::{KEYS, Key};
use crate::member::Member;

/// Fewest members of a group.
const MEMBERS: usize = 4;
/// Fewest hosts that agree: the ports of one host are usually set together, so they are one voice.
const HOSTS: usize = 3;
/// Share of the members that agree, in percent.
const AGREE_PERCENT: usize = 80;
/// Values of a split group that are listed.
const LISTED: usize = 8;

/// What members have in common that are compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    /// `None`: the ports of all rails that have too few members of their own.
    rail: Option<&'a str>,
    /// Number of the port on its adapter: planes of one adapter go to networks of their own.
    number: &'a str,
    model: &'a str,
    /// Only for keys that hold within one kind of board.
    board: &'a str,
    link_layer: &'a str,
    fabric: &'a str,
    function: &'a str,
}

impl<'a> Group<'a> {
    fn of(member: &'a Member, key: &Key) -> Self {
        Self {
            rail: Some(&member.rail),
            number: &member.number,
            model: &member.model,
            board: if key.within_board { &member.board } else { "" },
            link_layer: &member.link_layer,
            fabric: &member.fabric,
            function: &member.function,
        }
    }

    /// Name for people: `rail 2, MT4129, roce`, with the number of the port if it is not the first.
    fn name(&self) -> String {
        let rail = self.rail.filter(|rail| !rail.is_empty()).map(|rail| format!("rail {rail}"));
        let number = Some(self.number).filter(|number| !["", "1"].contains(number)).map(|n| format!("port {n}"));
        let others = [self.model, self.board, self.fabric].map(str::to_owned);
        rail.into_iter().chain(number).chain(others).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// Members of one group, by their value.
#[derive(Default)]
struct Votes<'a>(BTreeMap<&'a str, Vec<&'a Member>>);

impl<'a> Votes<'a> {
    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether there are enough members to compare.
    fn is_enough(&self) -> bool {
        self.count() >= MEMBERS && are_of_many_hosts(self.0.values().flatten())
    }

    /// The value of the majority, and how many have it.
    fn majority(&self) -> Option<(&'a str, usize)> {
        let (value, members) = self.0.iter().max_by_key(|(_, members)| members.len())?;
        let agree = members.len() * 100 >= self.count() * AGREE_PERCENT && are_of_many_hosts(members);
        agree.then_some((*value, members.len()))
    }

    fn split(&self, group: &Group<'_>, key: &Key) -> Split {
        let value = |(value, members): (&&str, &Vec<&Member>)| SplitValue {
            value: (*value).to_owned(),
            members: members.len(),
            example: members.first().map_or_else(String::new, |first| format!("{} {}", first.host, first.name)),
        };
        let mut values: Vec<SplitValue> = self.0.iter().map(value).collect();
        values.sort_by(|a, b| b.members.cmp(&a.members).then_with(|| a.value.cmp(&b.value)));
        values.truncate(LISTED);
        Split { group: group.name(), key: key.name.to_owned(), title: key.title.to_owned(), values }
    }
}

/// Whether the members are of at least [`HOSTS`] hosts. Stops at the first members that are.
fn are_of_many_hosts<'a>(members: impl IntoIterator<Item = &'a &'a Member>) -> bool {
    let mut hosts: Vec<&str> = Vec::with_capacity(HOSTS);
    members.into_iter().any(|member| {
        if !hosts.contains(&&*member.host) {
            hosts.push(&member.host);
        }
        hosts.len() >= HOSTS
    })
}

/// A member that has not the value of its group.
pub(crate) struct Outlier<'a> {
    pub member: &'a Member,
    pub value: &'a str,
    pub expected: &'a str,
    pub reason: Reason,
}

/// Compares the values of one key, by its position. Returns the members that differ from four fifths of their group, and the groups in
/// which no four fifths agree.
pub(crate) fn compare<'a>(at: usize, members: &[&'a Member]) -> (Vec<Outlier<'a>>, Vec<Split>) {
    let key = &KEYS[at];
    let mut groups: BTreeMap<Group<'a>, Votes<'a>> = BTreeMap::new();
    for &member in members.iter().filter(|member| member.is_rdma()) {
        if let Some(value) = member.value(at) {
            groups.entry(Group::of(member, key)).or_default().0.entry(value).or_default().push(member);
        }
    }
    let small: Vec<Group<'a>> =
        groups.iter().filter(|(_, votes)| !votes.is_enough()).map(|(group, _)| *group).collect();
    for group in small {
        let votes = groups.remove(&group).unwrap_or_default();
        let all_rails = groups.entry(Group { rail: None, ..group }).or_default();
        votes.0.into_iter().for_each(|(value, members)| all_rails.0.entry(value).or_default().extend(members));
    }
    let (mut outliers, mut splits) = (Vec::new(), Vec::new());
    for (group, votes) in groups.iter().filter(|(_, votes)| votes.is_enough()) {
        let Some((expected, agree)) = votes.majority() else {
            splits.push(votes.split(group, key));
            continue;
        };
        let reason = Reason::Majority { group: group.name(), agree, of: votes.count() };
        for (value, members) in votes.0.iter().filter(|(value, _)| **value != expected) {
            outliers.extend(members.iter().map(|member| Outlier { member, value, expected, reason: reason.clone() }));
        }
    }
    (outliers, splits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Members;
    use crate::testing::{fleet, fleet_with, port, set};
    use fabriclens_model::Labels;
    use proptest::prelude::*;

    fn pfc(hosts: &[(&str, &str, &str)]) -> (Vec<(String, String)>, Vec<Split>) {
        let mut members = fleet(hosts.iter().map(|(host, rail, _)| (*host, *rail)));
        hosts.iter().for_each(|(host, rail, value)| set(&mut members, host, rail, "pfc_priorities", value));
        let all: Vec<&Member> = members.iter().collect();
        let (outliers, splits) = compare(Key::position("pfc_priorities").unwrap(), &all);
        (outliers.iter().map(|o| (o.member.host.clone(), o.expected.to_owned())).collect(), splits)
    }

    fn rail(count: usize, value: &'static str) -> Vec<(&'static str, &'static str, &'static str)> {
        const NAMES: [&str; 8] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];
        NAMES[..count].iter().map(|host| (*host, "0", value)).collect()
    }

    #[test]
    fn one_of_five_is_an_outlier_and_one_of_three_is_not() {
        let mut hosts = rail(5, "3");
        hosts[4].2 = "none";
        assert_eq!(pfc(&hosts), (vec![("h5".into(), "3".into())], vec![]));
        let mut few = rail(3, "3");
        few[2].2 = "none";
        assert_eq!(pfc(&few), (vec![], vec![]), "three members are no group");
    }

    #[test]
    fn a_split_fleet_accuses_nobody_and_is_told() {
        let mut hosts = rail(8, "3");
        hosts[..4].iter_mut().for_each(|host| host.2 = "4");
        let (outliers, splits) = pfc(&hosts);
        assert_eq!(outliers, []);
        assert_eq!(splits.len(), 1);
        assert_eq!(splits[0].values.iter().map(|v| (&*v.value, v.members)).collect::<Vec<_>>(), [("3", 4), ("4", 4)]);
    }

    #[test]
    fn a_plane_is_compared_with_the_same_plane_of_other_hosts() {
        let hosts = ["h1", "h2", "h3", "h4", "h5"];
        let planes = hosts.iter().flat_map(|host| ["3", "6"].map(|number| (*host, number)));
        let labels: Vec<Labels> = planes
            .clone()
            .map(|(host, number)| {
                Labels::new(port(host, "0").iter().map(|(n, v)| (n, if n == "port" { number } else { v })))
            })
            .collect();
        let up = planes.clone().map(|(host, number)| (host.to_owned(), format!("mlx5_0/{number}"))).collect();
        let mut members = Members::of_ports(&labels, &up);
        let at = Key::position("netdev_mtu").unwrap();
        for (host, number) in planes {
            let mtu = if number == "3" && host != "h5" { "9000" } else { "4200" };
            members.set(host, &format!("mlx5_0/{number}"), at, mtu.into());
        }
        let (outliers, splits) = compare(at, &members.iter().collect::<Vec<_>>());
        let told: Vec<_> = outliers.iter().map(|o| (&*o.member.host, &*o.member.name, o.expected)).collect();
        assert_eq!((told, splits.len()), (vec![("h5", "mlx5_0/3", "9000")], 0));
        let Reason::Majority { group, .. } = &outliers[0].reason else { panic!("{:?}", outliers[0].reason) };
        assert_eq!(group, "rail 0, port 3, MT4129, roce");
    }

    #[test]
    fn only_ports_of_one_kind_are_compared() {
        let hosts = ["h1", "h2", "h3", "h4", "h5"];
        for (label, of_others, of_odd, outliers) in [
            ("fabric", "roce", "roce", 1),
            ("fabric", "ethernet", "ethernet", 0),
            ("fabric", "roce", "infiniband", 0),
            ("function", "pf", "vf", 0),
            ("model", "MT4129", "MT4123", 0),
        ] {
            let mut members = fleet_with(hosts.map(|host| {
                let own = if host == "h5" { of_odd } else { of_others };
                (host, "0", vec![(label, own)])
            }));
            for host in hosts {
                set(&mut members, host, "0", "pfc_priorities", if host == "h5" { "none" } else { "3" });
            }
            let all: Vec<&Member> = members.iter().collect();
            let found = compare(Key::position("pfc_priorities").unwrap(), &all);
            assert_eq!((found.0.len(), found.1.len()), (outliers, 0), "{label} {of_others} {of_odd}");
        }
    }

    #[test]
    fn two_hosts_with_many_ports_are_two_voices() {
        let rails = ["0", "1", "2", "3", "4", "5"];
        let mut hosts: Vec<_> = rails.iter().map(|rail| ("h1", *rail, "3")).collect();
        hosts.push(("h2", "0", "none"));
        assert_eq!(pfc(&hosts), (vec![], vec![]));
    }

    #[test]
    fn rails_with_few_ports_are_compared_together() {
        let mut hosts: Vec<_> = ["h1", "h2", "h3"].into_iter().flat_map(|h| [(h, "0", "3"), (h, "1", "3")]).collect();
        hosts[5].2 = "none";
        assert_eq!(pfc(&hosts).0, [("h3".to_owned(), "3".to_owned())]);
        // A rail that is large enough is compared alone, whatever the others have.
        let mut hosts = rail(8, "3");
        hosts.extend([("h1", "1", "4"), ("h2", "1", "4")]);
        assert_eq!(pfc(&hosts), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn order_of_hosts_does_not_matter(order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(), odd in 0..8usize) {
            let mut hosts = rail(8, "3");
            hosts[odd].2 = "none";
            let shuffled: Vec<_> = order.iter().map(|at| hosts[*at]).collect();
            prop_assert_eq!(pfc(&shuffled), pfc(&hosts));
            prop_assert_eq!(pfc(&hosts).0.len(), 1);
        }
    }
}
