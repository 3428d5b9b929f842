//! Which link leads where.
//!
//! A *site* is one end of one link. Sites that are joined form a junction, as at a router; a
//! packet that comes out at one of them goes on into the link that leads to its destination by the
//! fewest links.

use std::collections::VecDeque;

use tack_link::{End, HostId};

/// Names a link of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// One end of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Which link.
    pub link: LinkId,
    /// Which end of it.
    pub end: End,
}

impl Site {
    /// Ends A are even, ends B odd.
    fn index(self) -> usize {
        self.link.0 as usize * 2 + usize::from(self.end == End::B)
    }

    fn from_index(index: usize) -> Site {
        let end = if index.is_multiple_of(2) { End::A } else { End::B };
        Site { link: LinkId(index as u32 / 2), end }
    }
}

/// Where a packet goes from where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Its host is here.
    Here,
    /// Into the link at this site.
    Into(Site),
    /// No way leads there.
    Nowhere,
}

#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Junction of each site: the smallest site index in it.
    junction: Vec<usize>,
    /// Site of each host.
    hosts: Vec<Site>,
    /// Junction of each host, and `next[junction][junction]`; empty until computed.
    goals: Vec<usize>,
    next: Vec<Vec<Next>>,
}

impl Topology {
    pub(crate) fn add_link(&mut self) -> LinkId {
        let id = LinkId(self.junction.len() as u32 / 2);
        self.junction.extend([self.junction.len(), self.junction.len() + 1]);
        self.next.clear();
        id
    }

    pub(crate) fn add_host(&mut self, site: Site) -> HostId {
        assert!(site.index() < self.junction.len(), "{site:?} is not in this world");
        self.hosts.push(site);
        self.next.clear();
        self.hosts.len() as HostId - 1
    }

    pub(crate) fn join(&mut self, a: Site, b: Site) {
        let (a, b) = (self.junction[a.index()], self.junction[b.index()]);
        let (kept, gone) = (a.min(b), a.max(b));
        for junction in &mut self.junction {
            if *junction == gone {
                *junction = kept;
            }
        }
        self.next.clear();
    }

    /// Where a packet for `dst` goes that `src` sends.
    pub(crate) fn leave_host(&mut self, src: HostId, dst: HostId) -> Next {
        let own = self.hosts[src as usize];
        match self.leave_site(own, dst) {
            // A neighbour on the same link: the medium between them is the link itself.
            Next::Here => Next::Into(own),
            next => next,
        }
    }

    /// Where a packet for `dst` goes that came out at `site`.
    #[inline]
    pub(crate) fn leave_site(&mut self, site: Site, dst: HostId) -> Next {
        if self.next.is_empty() {
            self.compute();
        }
        let Some(&to) = self.goals.get(dst as usize) else { return Next::Nowhere };
        self.next[self.junction[site.index()]][to]
    }

    /// Breadth first from every junction against the direction of travel.
    #[cold]
    fn compute(&mut self) {
        let sites = self.junction.len();
        self.next = vec![vec![Next::Nowhere; sites]; sites];
        self.goals = self.hosts.iter().map(|host| self.junction[host.index()]).collect();
        // A path of thousands of flows with links of their own has thousands of junctions.
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); sites];
        for (site, junction) in self.junction.iter().enumerate() {
            members[*junction].push(site);
        }
        for goal in (0..sites).filter(|s| self.junction[*s] == *s) {
            let mut reached = vec![false; sites];
            reached[goal] = true;
            self.next[goal][goal] = Next::Here;
            let mut queue = VecDeque::from([goal]);
            while let Some(junction) = queue.pop_front() {
                for &far in &members[junction] {
                    let near = Site::from_index(far ^ 1);
                    let from = self.junction[near.index()];
                    if !reached[from] {
                        reached[from] = true;
                        self.next[from][goal] = Next::Into(near);
                        queue.push_back(from);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(link: LinkId, end: End) -> Site {
        Site { link, end }
    }

    #[test]
    fn one_link_needs_no_routes() {
        let mut t = Topology::default();
        let link = t.add_link();
        let (a, b) = (t.add_host(site(link, End::A)), t.add_host(site(link, End::B)));
        assert_eq!(t.leave_host(a, b), Next::Into(site(link, End::A)));
        assert_eq!(t.leave_site(site(link, End::B), b), Next::Here);
        assert_eq!(t.leave_site(site(link, End::B), 7), Next::Nowhere);
    }

    #[test]
    fn stations_of_one_link_reach_each_other_through_it() {
        let mut t = Topology::default();
        let link = t.add_link();
        let (a, b) = (t.add_host(site(link, End::A)), t.add_host(site(link, End::A)));
        assert_eq!(t.leave_host(a, b), Next::Into(site(link, End::A)));
        assert_eq!(t.leave_site(site(link, End::A), b), Next::Here);
    }

    #[test]
    fn a_dumbbell_routes_over_its_middle_both_ways() {
        let mut t = Topology::default();
        let middle = t.add_link();
        let mut hosts = Vec::new();
        for n in 0..3 {
            let (left, right) = (t.add_link(), t.add_link());
            t.join(site(left, End::B), site(middle, End::A));
            t.join(site(middle, End::B), site(right, End::A));
            hosts.push((
                left,
                t.add_host(site(left, End::A)),
                right,
                t.add_host(site(right, End::B)),
            ));
            assert_eq!(hosts[n].1, n as u32 * 2);
        }
        let (left, l0, _, _) = hosts[0];
        let (_, _, right, r2) = hosts[2];
        assert_eq!(t.leave_host(l0, r2), Next::Into(site(left, End::A)));
        assert_eq!(t.leave_site(site(left, End::B), r2), Next::Into(site(middle, End::A)));
        assert_eq!(t.leave_site(site(middle, End::B), r2), Next::Into(site(right, End::A)));
        assert_eq!(t.leave_site(site(right, End::B), r2), Next::Here);
        assert_eq!(t.leave_host(r2, l0), Next::Into(site(right, End::B)));
        assert_eq!(t.leave_site(site(right, End::A), l0), Next::Into(site(middle, End::B)));
        assert_eq!(t.leave_site(site(middle, End::A), l0), Next::Into(site(left, End::B)));
    }

    #[test]
    fn islands_are_out_of_reach() {
        let mut t = Topology::default();
        let (one, other) = (t.add_link(), t.add_link());
        let a = t.add_host(site(one, End::A));
        let b = t.add_host(site(other, End::B));
        assert_eq!(t.leave_host(a, b), Next::Nowhere);
    }
}
