//! A pool of addresses: its ranges, who holds which address, and which rest for a while after their pod has gone.
//!
//! Addresses are numbers here; a pool is of one family. Taken addresses are kept as runs, so that a free one is found in
//! time that depends on the number of runs and not of addresses, and the free ones cost nothing, however many they are.
//!
//! Does not: lock itself, read the time, or know what its addresses are for.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::check_invariant;
use crate::clock::Nanos;
use crate::ids::PodUid;
use crate::invariants::Invariant;

/// Addresses from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddressRange {
    /// The lowest.
    pub first: u128,
    /// The highest; not below the lowest.
    pub last: u128,
}

impl AddressRange {
    /// The addresses of a CIDR, such as `10.0.0.0/24`; a single address is a range of one. Bits behind the prefix do not
    /// matter.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<(Family, Self), String> {
        let wrong = || format!("{text:?} is not a CIDR such as 10.0.0.0/24 or fd00::/64");
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let family = Family::of(address);
        let bits = family.bits();
        let prefix: u32 = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| wrong()))?;
        let behind = bits.checked_sub(prefix).ok_or_else(wrong)?;
        // Without bits behind the prefix the shift is one by all 128 bits, which there is none.
        let mask = u128::MAX.checked_shr(128 - behind).unwrap_or(0);
        let first = number(address) & !mask;
        Ok((
            family,
            Self {
                first,
                last: first | mask,
            },
        ))
    }

    /// Sorts ranges and joins those that overlap or touch.
    #[must_use]
    pub fn joined(mut ranges: Vec<Self>) -> Box<[Self]> {
        ranges.sort_unstable();
        let mut joined: Vec<Self> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(before) if before.last.checked_add(1).is_none_or(|next| range.first <= next) => {
                    before.last = before.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        joined.into()
    }

    /// Whether both have an address.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The family of a pool's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// 32 bits.
    V4,
    /// 128 bits.
    V6,
}

impl Family {
    /// Of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    const fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// A number as an address.
    #[must_use]
    pub fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX))),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

/// An address as a number.
#[must_use]
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// What a pool offers. Ranges and exclusions are sorted and do not overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    /// The family.
    pub family: Family,
    /// The addresses it has.
    pub ranges: Box<[AddressRange]>,
    /// Those of them that are nobody's.
    pub excluded: Box<[AddressRange]>,
}

impl PoolSpec {
    /// Whether an address is one of its own.
    #[must_use]
    pub fn offers(&self, address: IpAddr) -> bool {
        let number = number(address);
        Family::of(address) == self.family
            && covering(&self.ranges, number).is_some()
            && covering(&self.excluded, number).is_none()
    }

    /// How many addresses it has; at the limit of the type it stays there.
    #[must_use]
    pub fn size(&self) -> u128 {
        let mut size = 0_u128;
        for range in &self.ranges {
            let excluded = self.excluded.iter().filter_map(|out| overlap(*out, *range));
            let out = excluded.fold(0_u128, |sum, part| sum.saturating_add(length(part)));
            size = size.saturating_add(length(*range).saturating_sub(out));
        }
        size
    }
}

fn length(range: AddressRange) -> u128 {
    (range.last - range.first).saturating_add(1)
}

fn overlap(a: AddressRange, b: AddressRange) -> Option<AddressRange> {
    let (first, last) = (a.first.max(b.first), a.last.min(b.last));
    (first <= last).then_some(AddressRange { first, last })
}

/// The range around a number.
fn covering(ranges: &[AddressRange], number: u128) -> Option<AddressRange> {
    let after = ranges.partition_point(|range| range.first <= number);
    let before = ranges.get(after.checked_sub(1)?)?;
    (before.last >= number).then_some(*before)
}

/// Why an address is not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// By a pod, or it rests after one.
    Held,
    /// It is not one of the pool's.
    NotOffered,
    /// There is no free one.
    Exhausted,
}

#[derive(Debug)]
enum Holder {
    /// By these pods: by more than one only if they were seen so.
    Pods(SmallVec<[PodUid; 1]>),
    /// By none any more; free again at this time, or after the grace that begins when somebody next looks.
    Resting(Option<Nanos>),
}

#[derive(Debug)]
pub(super) struct PoolEntry {
    spec: PoolSpec,
    /// First and last of each run of addresses that are held or rest, also outside of the ranges.
    runs: BTreeMap<u128, u128>,
    holders: FxHashMap<u128, Holder>,
    /// Of these, those that the pool offers.
    held_inside: u128,
    resting: usize,
    /// Where the last search ended: the next begins behind it, so that an address comes round late.
    cursor: u128,
}

impl PoolEntry {
    pub(super) fn new(spec: PoolSpec) -> Self {
        Self {
            spec,
            runs: BTreeMap::new(),
            holders: FxHashMap::default(),
            held_inside: 0,
            resting: 0,
            cursor: 0,
        }
    }

    pub(super) const fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Changes what it offers; addresses that it no longer does stay with their pods. False: it was so before.
    pub(super) fn set_spec(&mut self, spec: PoolSpec) -> bool {
        if self.spec == spec {
            return false;
        }
        self.spec = spec;
        let offered = |number: &&u128| self.spec.offers(self.spec.family.address(**number));
        self.held_inside = u128::try_from(self.holders.keys().filter(offered).count()).unwrap_or(u128::MAX);
        true
    }

    /// Addresses that can be had.
    pub(super) fn free(&self) -> u128 {
        self.spec.size().saturating_sub(self.held_inside)
    }

    /// Addresses of pods that the pool does not offer (any more).
    pub(super) fn outside(&self) -> usize {
        let offered = |number: &u128| self.spec.offers(self.spec.family.address(*number));
        let held = self
            .holders
            .iter()
            .filter(|(_, holder)| matches!(holder, Holder::Pods(_)));
        held.filter(|(number, _)| !offered(number)).count()
    }

    pub(super) fn is_taken(&self, address: IpAddr) -> bool {
        self.holders.contains_key(&number(address))
    }

    pub(super) fn holders_of(&self, address: IpAddr) -> &[PodUid] {
        match self.holders.get(&number(address)) {
            Some(Holder::Pods(pods)) => pods,
            _ => &[],
        }
    }

    /// Gives a pod an address: the one it wants, or the next free one.
    pub(super) fn take(&mut self, uid: PodUid, wanted: Option<IpAddr>) -> Result<IpAddr, Taken> {
        let found = match wanted {
            Some(address) if !self.spec.offers(address) => return Err(Taken::NotOffered),
            Some(address) if self.holders.contains_key(&number(address)) => return Err(Taken::Held),
            Some(address) => number(address),
            None => self.next_free().ok_or(Taken::Exhausted)?,
        };
        let before = self.holders.insert(found, Holder::Pods(smallvec![uid]));
        check_invariant!(
            Invariant::NoOvercommit,
            before.is_none(),
            "{uid:?} was given an address that is held by {before:?}"
        );
        self.occupy(found);
        if wanted.is_none() {
            self.cursor = found.wrapping_add(1);
        }
        Ok(self.spec.family.address(found))
    }

    /// Notes that a pod was seen to have an address. Gives the pod that has it too, if there is one.
    pub(super) fn note(&mut self, uid: PodUid, address: IpAddr) -> Option<PodUid> {
        let number = number(address);
        match self.holders.get_mut(&number) {
            Some(Holder::Pods(pods)) => {
                let other = pods.iter().copied().find(|pod| *pod != uid);
                if !pods.contains(&uid) {
                    pods.push(uid);
                }
                other
            }
            Some(resting) => {
                *resting = Holder::Pods(smallvec![uid]);
                self.resting -= 1;
                None
            }
            None => {
                self.holders.insert(number, Holder::Pods(smallvec![uid]));
                self.occupy(number);
                None
            }
        }
    }

    /// Takes an address back from a pod. With `rests` nobody else gets it before its grace is over. False: the pod did
    /// not have it.
    pub(super) fn give_back(&mut self, uid: PodUid, address: IpAddr, rests: bool) -> bool {
        let number = number(address);
        let Some(Holder::Pods(pods)) = self.holders.get_mut(&number) else {
            return false;
        };
        let before = pods.len();
        pods.retain(|pod| *pod != uid);
        let had = pods.len() != before;
        if !pods.is_empty() {
            return had;
        }
        if rests {
            self.holders.insert(number, Holder::Resting(None));
            self.resting += 1;
        } else {
            self.holders.remove(&number);
            self.vacate(number);
        }
        had
    }

    /// Frees what has rested for the grace; how many. O(resting).
    pub(super) fn wake(&mut self, now: Nanos, grace: Duration) -> usize {
        if self.resting == 0 {
            return 0;
        }
        let mut over = Vec::new();
        #[expect(clippy::iter_over_hash_type, reason = "each address is looked at by itself")]
        for (number, holder) in &mut self.holders {
            match holder {
                Holder::Resting(until @ None) => *until = Some(now.after(grace)),
                Holder::Resting(Some(until)) if *until <= now => over.push(*number),
                Holder::Resting(Some(_)) | Holder::Pods(_) => {}
            }
        }
        for number in &over {
            self.holders.remove(number);
            self.vacate(*number);
        }
        self.resting -= over.len();
        over.len()
    }

    /// Whether nobody has an address of it.
    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty()
    }

    /// The free address behind the cursor, or from the start. O(runs behind it).
    fn next_free(&self) -> Option<u128> {
        if self.free() == 0 {
            return None;
        }
        self.free_from(self.cursor).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u128) -> Option<u128> {
        for range in &self.spec.ranges {
            let mut at = range.first.max(from);
            while at <= range.last {
                match self.busy_until(at) {
                    None => return Some(at),
                    Some(last) => at = last.checked_add(1)?,
                }
            }
        }
        None
    }

    /// The last address of the run or exclusion that covers this one.
    fn busy_until(&self, number: u128) -> Option<u128> {
        if let Some(range) = covering(&self.spec.excluded, number) {
            return Some(range.last);
        }
        let (_, last) = self.runs.range(..=number).next_back()?;
        (*last >= number).then_some(*last)
    }

    fn occupy(&mut self, number: u128) {
        if self.spec.offers(self.spec.family.address(number)) {
            self.held_inside += 1;
        }
        let mut first = number;
        let mut last = number;
        if let Some((before, end)) = self.runs.range(..number).next_back()
            && end.checked_add(1) == Some(number)
        {
            first = *before;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(end) = self.runs.remove(&next)
        {
            last = end;
        }
        self.runs.insert(first, last);
    }

    fn vacate(&mut self, number: u128) {
        if self.spec.offers(self.spec.family.address(number)) {
            self.held_inside = self.held_inside.saturating_sub(1);
        }
        let Some((first, last)) = self
            .runs
            .range(..=number)
            .next_back()
            .map(|(first, last)| (*first, *last))
        else {
            return;
        };
        if number > first {
            self.runs.insert(first, number - 1);
        } else {
            self.runs.remove(&first);
        }
        if number < last {
            self.runs.insert(number + 1, last);
        }
    }
}

#[cfg(test)]
mod tests;
