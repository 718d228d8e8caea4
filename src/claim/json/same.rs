//! Equality of JSON values.

use super::number::same_number;
use super::{Kind, Named, Value};

/// Recurses no deeper than [`super::MAX_DEPTH`].
pub(super) fn same_value(a: Value<'_, '_>, b: Value<'_, '_>) -> bool {
    match (a.kind(), b.kind()) {
        (Kind::Null, Kind::Null) => true,
        (Kind::Bool, Kind::Bool) => a.raw() == b.raw(),
        (Kind::Number, Kind::Number) => same_number(a.raw(), b.raw()),
        (Kind::String, Kind::String) => a.as_str() == b.as_str(),
        (Kind::Array, Kind::Array) => same_elements(a, b),
        (Kind::Object, Kind::Object) => same_members(a, b),
        _ => false,
    }
}

fn same_elements(a: Value<'_, '_>, b: Value<'_, '_>) -> bool {
    let (mut a, mut b) = (a.elements(), b.elements());
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if same_value(a, b) => {}
            (a, b) => return a.is_none() && b.is_none(),
        }
    }
}

fn same_members(a: Value<'_, '_>, b: Value<'_, '_>) -> bool {
    let (a, b) = (sorted(a), sorted(b));
    let same = |(a, b): (&Named<'_, Value>, &Named<'_, Value>)| {
        a.same_name(b) && same_value(a.item, b.item)
    };
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

fn sorted<'d, 'a>(object: Value<'d, 'a>) -> Vec<Named<'a, Value<'d, 'a>>> {
    let mut members: Vec<_> =
        object.members().map(|(name, value)| Named::new(name, value)).collect();
    members.sort_unstable_by(Named::order);
    members
}
