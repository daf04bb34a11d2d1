//! The index of all objects by kind and name, which is made once. It is the only way from one
//! object to others: a rule that reads all objects for each of them takes time that grows with the
//! square of the files.

use std::collections::HashMap;

/// The tree of an object, and its number there.
pub(crate) type Place = (u32, u32);

#[derive(Debug, Default)]
struct Named {
    all: Vec<Place>,
    by_name: HashMap<Box<str>, Vec<Place>>,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    all: Vec<Place>,
    by_kind: HashMap<Box<str>, Named>,
    /// The Gateways, by the kind and name of the object that they take their parameters from.
    users: HashMap<Box<str>, Named>,
}

impl Index {
    pub(crate) fn add(&mut self, (kind, name): (&str, &str), place: Place) {
        self.all.push(place);
        add(&mut self.by_kind, kind, name, place);
    }

    pub(crate) fn add_user(&mut self, (kind, name): (&str, &str), gateway: Place) {
        add(&mut self.users, kind, name, gateway);
    }

    pub(crate) fn all(&self) -> &[Place] {
        &self.all
    }

    pub(crate) fn of_kind(&self, kind: &str) -> &[Place] {
        self.by_kind.get(kind).map_or(&[], |of_kind| &of_kind.all)
    }

    pub(crate) fn named(&self, kind: &str, name: &str) -> &[Place] {
        named(&self.by_kind, kind, name)
    }

    pub(crate) fn users(&self, kind: &str, name: &str) -> &[Place] {
        named(&self.users, kind, name)
    }
}

fn add(kinds: &mut HashMap<Box<str>, Named>, kind: &str, name: &str, place: Place) {
    let of_kind = kinds.entry(kind.into()).or_default();
    of_kind.all.push(place);
    of_kind.by_name.entry(name.into()).or_default().push(place);
}

fn named<'i>(kinds: &'i HashMap<Box<str>, Named>, kind: &str, name: &str) -> &'i [Place] {
    kinds.get(kind).and_then(|of_kind| of_kind.by_name.get(name)).map_or(&[], Vec::as_slice)
}
